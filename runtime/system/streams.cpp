#include "runtime/system/streams.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

namespace cryolite {

void hold_standard_streams() {
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
        // `open` returns the lowest free number: this one. In the wrong direction, so that using it still fails.
        if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
    }
}

StreamResult write_stream(int descriptor, std::string_view text) noexcept {
    StreamResult result;
    while (result.error == 0 && result.written < text.size()) {
        const ssize_t done = ::write(descriptor, text.data() + result.written, text.size() - result.written);
        if (done >= 0) {
            result.written += static_cast<size_t>(done);
        } else if (errno == EAGAIN) {  // a pipe that its other end has made non-blocking
            pollfd ready = {descriptor, POLLOUT, 0};
            ::poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            result.error = errno;
        }
    }
    return result;
}

}  // namespace cryolite
