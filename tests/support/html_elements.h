#pragma once
// What tests of pages ask of HTML: that it is well-formed, and loads nothing.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cryolite::test {

/// The names of the elements in their order; every one has to end within the one that it began in.
inline std::vector<std::string> html_elements(const std::string &page) {
    std::vector<std::string> all, open;
    for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
        const size_t end = page.find('>', at);
        REQUIRE(end != std::string::npos);
        const std::string tag = page.substr(at + 1, end - at - 1);
        CAPTURE(tag);
        CHECK(tag.find('<') == std::string::npos);
        CHECK(std::ranges::count(tag, '"') % 2 == 0);
        if (tag.starts_with("!")) continue;
        const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
        if (tag[0] == '/') {
            REQUIRE(!open.empty());
            CHECK(open.back() == tag.substr(1));
            open.pop_back();
            continue;
        }
        all.push_back(name);
        if (!tag.ends_with("/")) open.push_back(name);
    }
    CHECK(open.empty());
    return all;
}

/// `names`: its elements.
inline void check_loads_nothing(const std::string &page, const std::vector<std::string> &names) {
    for (const char *loads : {"script", "link", "img", "iframe", "object", "use", "image"})
        CHECK(std::ranges::count(names, loads) == 0);
    for (const char *outside : {"http", "url(", "@import", " src=\"", "href"}) {
        CAPTURE(outside);
        CHECK(page.find(outside) == std::string::npos);
    }
}

}  // namespace cryolite::test
