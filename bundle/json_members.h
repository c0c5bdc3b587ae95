#pragma once
// Reads and writes structs as JSON objects by one list of their members: for a struct S there is a function
//   void members(auto &io, Is<S> auto &s) { io.needed("name", s.name), io.given("rows", s.rows, -1); }
// in namespace cryolite, which a JsonReader or a JsonWriter calls. Lists, maps and structs may be nested.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bundle/error.h"
#include "bundle/shown.h"

namespace cryolite {

/// T is S, which a reader fills, or a constant S, which a writer writes.
template <typename T, typename S>
concept Is = std::same_as<std::remove_const_t<T>, S>;

template <typename T> inline constexpr bool is_list = false;
template <typename T> inline constexpr bool is_list<std::vector<T>> = true;
template <typename T> inline constexpr bool is_map = false;
template <typename T> inline constexpr bool is_map<std::map<std::string, T>> = true;

/// A whole number of a file. Throws where it is none or does not fit, which a plain conversion would not notice.
template <std::integral Whole> Whole whole(const nlohmann::json &j) {
    const bool fits = j.is_number_unsigned() ? std::in_range<Whole>(j.get<uint64_t>())
                                             : j.is_number_integer() && std::in_range<Whole>(j.get<int64_t>());
    if (!fits) fail("it has {} where a whole number is expected", shown(j.dump(-1, ' ', true)));
    return j.get<Whole>();
}

/// Throws an Error or an exception of nlohmann's: a member is missing, or has another type.
class JsonReader {
public:
    explicit JsonReader(const nlohmann::json &object) : object_(object) {}

    /// A member that every object has.
    template <typename T> void needed(const char *name, T &member) { read(object_.at(name), member); }
    /// A member that is always written but may be missing when it is read; it keeps its value then.
    template <typename T> void usual(const char *name, T &member) {
        if (object_.contains(name)) needed(name, member);
    }
    /// A member that is written only where it is not empty, or is not the default that is given.
    template <typename T> void given(const char *name, T &member, const std::type_identity_t<T> & = T{}) {
        usual(name, member);
    }

private:
    const nlohmann::json &object_;

    template <typename T> static void read(const nlohmann::json &j, T &x) {
        if constexpr (is_list<T>) {
            x.clear();
            for (const nlohmann::json &element : j.get_ref<const nlohmann::json::array_t &>())
                read(element, x.emplace_back());
        } else if constexpr (is_map<T>) {
            for (const auto &[key, element] : j.get_ref<const nlohmann::json::object_t &>()) read(element, x[key]);
        } else if constexpr (requires(JsonReader r) { members(r, x); }) {
            JsonReader reader(j);
            members(reader, x);
        } else if constexpr (std::same_as<T, std::optional<double>>) {
            x = j.get<double>();
        } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
            x = whole<T>(j);
        } else {
            j.get_to(x);
        }
    }
};

class JsonWriter {
public:
    explicit JsonWriter(nlohmann::json &object) : object_(object) {}

    template <typename T> void needed(const char *name, const T &member) { object_[name] = written(member); }
    template <typename T> void usual(const char *name, const T &member) { needed(name, member); }
    template <typename T> void given(const char *name, const T &member) {
        if constexpr (requires { member.empty(); }) {
            if (!member.empty()) needed(name, member);
        } else {
            given(name, member, T{});
        }
    }
    template <typename T> void given(const char *name, const T &member, const std::type_identity_t<T> &otherwise) {
        if (member != otherwise) needed(name, member);
    }

private:
    nlohmann::json &object_;

    template <typename T> static nlohmann::json written(const T &x) {
        if constexpr (is_list<T>) {
            nlohmann::json list = nlohmann::json::array();
            for (const auto &element : x) list.push_back(written(element));
            return list;
        } else if constexpr (is_map<T>) {
            nlohmann::json map = nlohmann::json::object();
            for (const auto &[key, element] : x) map[key] = written(element);
            return map;
        } else if constexpr (requires(JsonWriter w) { members(w, x); }) {
            nlohmann::json object = nlohmann::json::object();
            JsonWriter writer(object);
            members(writer, x);
            return object;
        } else if constexpr (std::same_as<T, std::optional<double>>) {
            // A whole number, such as an id, is written without a fraction.
            const bool fits = *x == std::floor(*x) && std::abs(*x) < 0x1p31;
            return fits ? nlohmann::json(int64_t(*x)) : nlohmann::json(*x);
        } else {
            return nlohmann::json(x);
        }
    }
};

}  // namespace cryolite
