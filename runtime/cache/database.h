#pragma once
// An SQLite file of measured values in the cache's folder. One that is damaged, or that others may write, is begun
// again, with a message. One that cannot be written is not used, with a message.

#include <cstdint>
#include <string>

#include "runtime/io/files.h"

struct sqlite3;
struct sqlite3_stmt;

namespace cryolite {

class Database {
public:
    /// What identifies the file and its tables.
    struct Form {
        const char *name;    ///< of the file
        int version;         ///< of its tables
        const char *tables;  ///< the statements that make them
        const char *probe;   ///< a query that only such tables answer
    };

    Database(const fs::path &folder, const Form &form);
    ~Database();
    Database(const Database &) = delete;

    /// Whether it can be used. `hindrance` says why not; a message has said so, too.
    explicit operator bool() const { return handle_; }
    const std::string &hindrance() const { return hindrance_; }

    /// Why the file must not be used; empty: it is whole, or there is none.
    static std::string damage(const fs::path &folder, const Form &form);
    static void remove(const fs::path &folder, const Form &form);

    /// A statement with its values, bound in their order.
    class Statement {
    public:
        /// Errors: SQLite's own message, as of `step`.
        Statement(const Database &database, const char *text) : Statement(database.handle_, text) {}
        ~Statement();
        Statement(const Statement &) = delete;

        Statement &bind(const std::string &text);
        Statement &bind(int64_t n);
        Statement &bind(int n) { return bind(int64_t(n)); }
        Statement &bind(double x);
        /// Runs the statement to its next row. False: there is none.
        bool step();
        double real(int column = 0) const;
        int64_t whole(int column = 0) const;
        std::string text(int column = 0) const;

    private:
        friend class Database;
        Statement(sqlite3 *handle, const char *text);
        sqlite3_stmt *statement_ = nullptr;
        int at_ = 0;
    };

private:
    static void check(sqlite3 *handle, const Form &form);
    static int version_of(sqlite3 *handle);

    sqlite3 *handle_ = nullptr;
    std::string hindrance_;
};

}  // namespace cryolite
