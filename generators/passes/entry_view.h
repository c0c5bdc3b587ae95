#pragma once
// One entry of a program, with what passes ask of it again and again: who writes and who reads a value.

#include "generators/passes/pass.h"

namespace cryolite::compiler {

class EntryView {
public:
    EntryView(StepProgram &p, const std::string &name);

    StepProgram &p;
    const std::string name;
    ir::Entry &entry;

    /// The last operation that writes a value, or parts of it; none: an earlier entry does.
    OpId writer(ValueId v) const { return writer_[size_t(p.base(v).index)]; }
    /// In the order of the entry.
    const std::vector<OpId> &readers(ValueId v) const { return readers_[size_t(p.base(v).index)]; }
    /// The operations that a line names.
    std::vector<OpId> named(const ir::Stage &stage) const;
    /// Where an operation is in the order of the entry.
    int place(OpId id) const { return place_[size_t(id.index)]; }

    const std::vector<OpId> &mates(OpId id) const { return p.kernels[p.ops[id].kernel].ops; }
    /// An operation of this nature in the same kernel; none.
    OpId mate(OpId id, Nature n) const;
    /// Moves an operation, and all that shares its kernel, into another one's.
    void fuse_into(OpId id, OpId into, const std::string &how);
    bool feeds(OpId writer, OpId reader) const;
    /// An operation of a third kernel that reads, through others or not, what one of two kernels makes, and that the
    /// other kernel needs: they cannot be one. None: they can.
    OpId between(KernelId one, KernelId other) const;

private:
    std::vector<OpId> writer_;
    std::vector<std::vector<OpId>> readers_;
    std::vector<int> place_;
    struct Made {
        OpId by;
        CallId call;
    };
    std::map<LayerId, std::vector<Made>> forward_, adjoint_;

    OpId on_path(KernelId from, KernelId to) const;
};

}  // namespace cryolite::compiler
