#pragma once
// One entry of a program, with answers to what passes often ask: which operations write and read a value.

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
    /// The operations that read a value, or parts of it, in the order of the entry.
    const std::vector<OpId> &readers(ValueId v) const { return readers_[size_t(p.base(v).index)]; }
    /// The operations that a line names.
    std::vector<OpId> named(const ir::Stage &stage) const;
    /// Where an operation is in the order of the entry.
    int place(OpId id) const { return place_[size_t(id.index)]; }

    const std::vector<OpId> &mates(OpId id) const { return p.kernels[p.ops[id].kernel].ops; }
    /// The first operation of this nature in the same kernel, if any.
    OpId mate(OpId id, Nature n) const;
    /// Moves an operation, and all others of its kernel, into the kernel of another operation.
    void fuse_into(OpId id, OpId into, const std::string &how);
    bool feeds(OpId writer, OpId reader) const;
    /// A value that the reader reads, and of which the writer writes only a part, or a whole that it is a part of.
    /// None: there is no such value.
    ValueId overlap(OpId writer, OpId reader) const;
    /// An operation of a third kernel that depends on one of two kernels, directly or not, and on which the other
    /// kernel depends, so that the two cannot be fused. None: they can.
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
