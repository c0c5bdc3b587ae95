// Trains a small GPT on a text: the loop that `./cryolite train` runs, without its comforts.
//   build/bin/gpt_train my.txt
// Expect, on Tiny Shakespeare, a loss of 4.2 at step 1, about 2.6 at step 100 and 2.4 at step 200.

#include "client/programs.h"
#include "runtime/data/text.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"
#include "runtime/train/rate.h"
#include "runtime/train/trainer.h"

using namespace cryolite;

static void train(const char *path, int steps) {
    const int batch = 12, context = 64;
    TextCorpus text = load_text({.data = path, .context = context});

    Cache cache;
    BundleRequest request;
    request.step.clip = 1;
    request.params = {{"batch", std::to_string(batch)},
                      {"context", std::to_string(context)},
                      {"vocab", std::to_string(text.tokenizer->size())}};
    BundleResult built = get_bundle(find_program("gpt", cache), request, cache, {});

    auto device = make_cpu_device(0);  // all cores
    Trainer trainer(std::make_shared<Bundle>(built.files), *device);
    trainer.initialise(1);
    trainer.set("clip", 1.0);

    Loader data(random_windows(text.train, {batch, context}, 1));
    LearningRate rate{.high = 1e-3, .low = 1e-4, .warmup = 100, .steps = 2000};
    for (int i = 0; i < steps; i++) {
        trainer.set("lr", rate.at(uint64_t(i)));
        double loss = trainer.step([&]() -> const Batch & { return data.next(); }, 1);
        if (i == 0 || (i + 1) % 100 == 0) tell("step {:4}  loss {:.4f}", i + 1, loss);
    }
    trainer.write_parameters("model.safetensors");
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) return tell("usage: gpt_train TEXT [STEPS]"), 2;
    try {
        train(argv[1], argc == 3 ? std::atoi(argv[2]) : 2000);
    } catch (const std::exception &e) {
        tell("gpt_train: {}", e.what());
        return 1;
    }
}
