// Images in IDX files, what becomes of them when they are trained on, and the picture of a classifier's answers.

#include <numeric>

#include "runtime/data/idx.h"
#include "runtime/data/loader.h"
#include "runtime/files/confusion.h"
#include "tests/runtime/idx.h"

namespace cryolite::test {

TEST_CASE("images: a folder of IDX files, plain or compressed") {
    const IdxFolder f(6, 4, 3, 5);
    CHECK(is_idx_folder(f.scratch.path));
    const auto [train, held_out] = load_idx_folder(f.scratch.path, 0);
    CHECK(train.rows() == 6);
    CHECK(held_out.rows() == 4);
    CHECK(train.width == 3);
    CHECK(train.height == 5);
    CHECK(train.columns == 15);
    CHECK(train.classes == 3);
    CHECK(train.labels == std::vector<int32_t>{0, 1, 2, 0, 1, 2});
    CHECK(int(train.pixels->at(2 * 15 + 4)) == f.pixel(2, 4));
    CHECK(load_idx_folder(f.scratch.path, 7).first.classes == 7);
    const std::string digest = train.digest;
    f.write("train-labels-idx1-ubyte", IdxFolder::file({6}, {0, 1, 2, 0, 1, 1}));
    CHECK(load_idx_folder(f.scratch.path, 0).first.digest != digest);
    CHECK_FALSE(is_idx_folder(f.scratch / "none"));
    if (const fs::path real = "/usr/share/datasets/fashion-mnist"; is_idx_folder(real)) {
        const auto [images, tests] = load_idx_folder(real, 10);
        CHECK(images.rows() == 60000);
        CHECK(tests.rows() == 10000);
        CHECK(images.columns == 784);
    }
}

TEST_CASE("images: files that are no IDX files, or do not fit each other, are refused by name") {
    const IdxFolder f(6, 4, 3, 5);
    const auto refused = [&](const char *name, const std::string &bytes, const std::string &words) {
        const std::string before = read_file(f.scratch / name);
        f.write(name, bytes);
        const std::string said = error_of([&] { load_idx_folder(f.scratch.path, 0); });
        CAPTURE(said);
        CHECK(said.find((f.scratch / name).string()) != std::string::npos);
        CHECK(said.find(words) != std::string::npos);
        f.write(name, before);
    };
    const char *images = "train-images-idx3-ubyte", *labels = "t10k-labels-idx1-ubyte";
    const std::string good = read_file(f.scratch / images);
    std::filesystem::create_directory(f.scratch / "empty");
    CHECK_ERROR(load_idx_folder(f.scratch / "empty", 0),
                "empty has no train-images-idx3-ubyte: a folder of images has");
    refused(images, "", "not an IDX file");
    refused(images, "P5 3 5 255 and the pixels", "not an IDX file");
    refused(images, "\x1f\x8b and no more", "damaged");
    refused(images, good.substr(0, good.size() - 1), "89 bytes follow its header, which says 90: it is truncated");
    refused(images, good + "x", "91 bytes follow its header, which says 90: too many");
    refused(images, IdxFolder::file({6}, {0, 0, 0, 0, 0, 0}), "not an IDX file");  // shorter than a header of three
    refused(images, good.substr(0, 10), "has 10 bytes, but its header alone has 16: it is truncated");
    std::string other = good;
    other[2] = 13;
    refused(images, other, "byte 2, the type, is 13, expected 8");
    other = good, other[3] = 1;
    refused(images, other, "byte 3, the number of dimensions, is 1, expected 3");
    other = good, other[7] = 0;
    refused(images, other, "byte 4, extent 0, is 0, expected 1 to 16777216");
    refused(labels, IdxFolder::file({3}, {0, 1, 2}), "t10k-images-idx3-ubyte has 4 images, ");
    f.write("t10k-images-idx3-ubyte", IdxFolder::file({4, 3, 5}, std::vector<uint8_t>(60)));
    CHECK_ERROR(load_idx_folder(f.scratch.path, 0), "images of train-images are 3 x 5, those of t10k-images 5 x 3");
    f.write("t10k-images-idx3-ubyte", IdxFolder::file({4, 5, 3}, std::vector<uint8_t>(60)));
    CHECK_ERROR(load_idx_folder(f.scratch.path, 2),
                "train-labels-idx1-ubyte: label 2 of image 2 is not one of 2 classes");
    fs::remove(f.scratch / labels);
    CHECK_ERROR(load_idx_folder(f.scratch.path, 0), f.scratch.path.string() + " has no " + labels + ": a folder of");
}

namespace {

/// One image of 4 x 3 whose pixels are 1 ... 12, so often.
Table counting_images(int rows) {
    Table t;
    t.width = 4, t.height = 3, t.columns = 12, t.classes = 1;
    std::vector<uint8_t> pixels(size_t(rows) * 12);
    for (size_t i = 0; i < pixels.size(); i++) pixels[i] = uint8_t(1 + i % 12);
    t.pixels = std::make_shared<const std::vector<uint8_t>>(pixels);
    t.labels.assign(size_t(rows), 0);
    return t;
}

/// The image moved and mirrored as `where` counts: by dx + 1 + 3 (dy + 1) + 9 mirrored.
std::vector<float> moved(int where) {
    const int dx = where % 3 - 1, dy = where / 3 % 3 - 1;
    std::vector<float> out;
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 4; x++) {
            const int u = x - dx, v = y - dy;
            const bool inside = u >= 0 && u < 4 && v >= 0 && v < 3;
            out.push_back(inside ? float(1 + v * 4 + (where >= 9 ? 3 - u : u)) : 0.0f);
        }
    return out;
}

}  // namespace

TEST_CASE("images: each is moved and mirrored by chance, the same however the run is cut") {
    constexpr int batch = 60, batches = 40;
    const Augmentation all{.shift = 1, .flip = true};
    Loader loader(shuffled_rows(counting_images(50), batch, 7, 1, all));
    std::vector<int> seen(18);
    std::vector<Batch> whole;
    for (int k = 0; k < batches; k++) {
        whole.push_back(loader.next());
        for (int row = 0; row < batch; row++) {
            const std::vector<float> image(whole.back().features.begin() + row * 12,
                                           whole.back().features.begin() + row * 12 + 12);
            int where = 0;
            while (where < 18 && moved(where) != image) where++;
            REQUIRE(where < 18);
            seen[size_t(where)]++;
        }
    }
    for (int count : seen) CHECK(std::abs(count - batch * batches / 18.0) < 50);  // 4.5 standard deviations
    Loader later(shuffled_rows(counting_images(50), batch, 7, 1, all), 13);       // a resume
    for (int k = 13; k < batches; k++) CHECK(later.next().features == whole[size_t(k)].features);
    Loader halves(shuffled_rows(counting_images(50), batch / 2, 7, 1, all));  // micro-batches of half the size
    for (int k = 0; k < batches; k++)
        for (int half = 0; half < 2; half++) {
            const std::vector<float> &some = halves.next().features;
            CHECK(std::equal(some.begin(), some.end(), whole[size_t(k)].features.begin() + half * long(some.size())));
        }
    Loader other(shuffled_rows(counting_images(50), batch, 8, 1, all));
    CHECK(other.next().features != whole[0].features);
    Loader plain(shuffled_rows(counting_images(50), batch, 7, 0.5f));
    CHECK(plain.next().features[11] == 6);
    Table numbers;
    numbers.columns = 1, numbers.features = {1, 2}, numbers.labels = {0, 1};
    CHECK_ERROR(shuffled_rows(numbers, 1, 7, 1, all), "rows of numbers are no images");
}

TEST_CASE("images: those that are evaluated are as they are") {
    Rows rows(counting_images(3), 2, 2);
    Batch b;
    CHECK(rows.fill(1, b) == 1);
    std::vector<float> expected(12);
    std::iota(expected.begin(), expected.end(), 1.0f);
    for (float &x : expected) x *= 2;
    CHECK(std::equal(expected.begin(), expected.end(), b.features.begin()));
}

TEST_CASE("confusion: a square for each label and answer, with its count") {
    const std::string svg = confusion_svg("a < b", 2, {30, 10, 0, 7});
    CHECK(svg.find("a &lt; b") != std::string::npos);
    for (const char *count : {">30<", ">10<", ">7<"}) CHECK(svg.find(count) != std::string::npos);
    size_t squares = 0;
    for (size_t at = 0; (at = svg.find("<rect", at)) != std::string::npos; at++) squares++;
    CHECK(squares == 5);                              // and the paper
    CHECK(svg.find("#215aa0") != std::string::npos);  // all of label 1 are right
    CHECK(svg.ends_with("</svg>\n"));
    // Few classes leave less room than a title takes.
    const auto width = [](const std::string &picture) {
        return std::stoi(picture.substr(picture.find("width=\"") + 7));
    };
    CHECK(width(svg) == 70 + 2 * 44 + 24);
    CHECK(width(confusion_svg(std::string(60, 'x'), 2, {30, 10, 0, 7})) >= 24 + 60 * 8 + 24);
    const std::string named = confusion_svg("", 2, {30, 10, 0, 7}, {"Trouser", "a < b"});
    CHECK(named.find(">Trouser 0<") != std::string::npos);
    CHECK(named.find(">a &lt; b 1<") != std::string::npos);
    CHECK(width(named) == width(svg) + 8 * 9);
    CHECK_ERROR(confusion_svg("", 2, {1, 2, 3}), "a picture of 2 classes needs 4 counts, not 3");
    CHECK_ERROR(confusion_svg("", 1, {1}, {"a", "b"}), "a picture of 1 classes needs 1 names or none, not 2");
}

}  // namespace cryolite::test
