#include "client/python/blocks_binding.h"

#include <pybind11/stl.h>

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/python/arguments.h"
#include "client/python/buffer.h"
#include "client/python/dlpack.h"
#include "client/python/raise.h"
#include "core/copy_sum.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

std::string PastEnd(size_t index, size_t blocks) {
  return "index is " + std::to_string(index) + "; must be below " + std::to_string(blocks);
}

py::buffer_info BufferOf(const Block& block) {
  // The buffer protocol has no const pointer; its flag read_only says so instead.
  return py::buffer_info(const_cast<void*>(block.data), 1, "B", 1,
                         {static_cast<py::ssize_t>(block.size)}, {py::ssize_t{1}}, block.read_only);
}

Block HitBlock(const Hit& hit, size_t i) {
  if (i >= hit.blocks.size()) throw py::index_error(PastEnd(i, hit.blocks.size()));
  const std::span<const std::byte> bytes = hit.blocks.bytes(i);
  return {hit.blocks.keep_mapped(), bytes.data(), bytes.size(), /*read_only=*/true};
}

// Returns why the first missing block did not come; None: no block is missing.
std::optional<std::string> Missed(const Hit& hit) {
  if (hit.blocks.missed() == MissReason::kNone) return std::nullopt;
  return MissReasonName(hit.blocks.missed());
}

size_t KeyIndex(const Hit& hit, size_t i) {
  if (i >= hit.blocks.size()) throw py::index_error(PastEnd(i, hit.blocks.size()));
  return hit.blocks.key_index(i);
}

std::vector<std::string> Sources(const Hit& hit) {
  std::vector<std::string> sources;
  sources.reserve(hit.blocks.size());
  for (size_t i = 0; i < hit.blocks.size(); ++i) {
    sources.emplace_back(BlockSourceName(hit.blocks.source(i)));
  }
  return sources;
}

// Takes the slot of entry `i`; None: there is no slot to write.
std::optional<Block> PutBlock(const Put& put, size_t i) {
  if (i >= put.blocks.size()) throw py::index_error(PastEnd(i, put.blocks.size()));
  const std::span<std::byte> slot = put.blocks.slot(i);
  if (slot.empty()) return std::nullopt;
  return Block{put.blocks.keep_mapped(), slot.data(), slot.size(), /*read_only=*/false};
}

std::vector<std::string> States(const Put& put) {
  std::vector<std::string> states;
  for (size_t i = 0; i < put.blocks.size(); ++i) {
    switch (put.blocks.state(i)) {
      case ReservedBlocks::State::kReserved:
        states.emplace_back("reserved");
        break;
      case ReservedBlocks::State::kPresent:
        states.emplace_back("present");
        break;
      case ReservedBlocks::State::kNoRoom:
        states.emplace_back("no_room");
        break;
      case ReservedBlocks::State::kPending:
        states.emplace_back("pending");
        break;
      case ReservedBlocks::State::kNoStore:
        states.emplace_back("no_store");
        break;
    }
  }
  return states;
}

size_t Commit(Put& put, Named<"step", uint64_t> step, Named<"durable", bool> durable,
              const Seconds& timeout_s) {
  const CommitOptions options{.step = step, .durable = durable, .timeout = TimeoutFrom(timeout_s)};
  // The blocks are moved out under the GIL, so that another thread sees an empty put.
  ReservedBlocks blocks = std::move(put.blocks);
  py::gil_scoped_release release;
  return blocks.Commit(options);
}

// Buffers are the memory of one copy: one object that is a buffer, or an iterable of such objects.
class Buffers {
 public:
  Buffers(const py::object& object, const std::string& name, Access access) {
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
      buffers_.emplace_back(object, name, access);
      return;
    }
    if (!py::isinstance<py::iterable>(object)) {
      throw py::value_error(name + " must be a buffer or a list of buffers");
    }
    for (const py::handle item : object) {
      buffers_.emplace_back(py::reinterpret_borrow<py::object>(item),
                            name + "[" + std::to_string(buffers_.size()) + "]", access);
    }
  }

  // Returns the buffers' bytes as Piece or ConstPiece.
  template <typename Span>
  std::vector<Span> As() const {
    std::vector<Span> pieces;
    pieces.reserve(buffers_.size());
    for (const Buffer& buffer : buffers_) pieces.push_back(buffer.bytes());
    return pieces;
  }

 private:
  std::deque<Buffer> buffers_;  // A Buffer does not move.
};

void CopyIn(Put& put, size_t i, const py::object& source) {
  if (i >= put.blocks.size()) throw py::index_error(PastEnd(i, put.blocks.size()));
  const Buffers buffers(source, "source", Access::kRead);
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = put.blocks.CopyIn(i, buffers.As<ConstPiece>());
  }
  if (!status.ok()) Raise(status);
}

// Returns whether the bytes may be used.
bool IsProven(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kDataLoss ||
      status.code() == absl::StatusCode::kFailedPrecondition) {
    return false;
  }
  if (!status.ok()) Raise(status);
  return true;
}

bool Prove(const Hit& hit, size_t i) {
  if (i >= hit.blocks.size()) throw py::index_error(PastEnd(i, hit.blocks.size()));
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = hit.blocks.Prove(i);
  }
  return IsProven(status);
}

bool CopyOut(const Hit& hit, size_t i, const py::object& to) {
  if (i >= hit.blocks.size()) throw py::index_error(PastEnd(i, hit.blocks.size()));
  const Buffers buffers(to, "to", Access::kWrite);
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = hit.blocks.CopyOut(i, buffers.As<Piece>());
  }
  return IsProven(status);
}

}  // namespace

Block BlockOf(const std::shared_ptr<const Mapping>& mapping, bool read_only) {
  return {mapping, mapping->Read(0, mapping->size())->data(), mapping->size(), read_only};
}

void BindBlocks(py::module_& module) {
  py::class_<Block> block(module, "Block", py::buffer_protocol());
  block.def_buffer(&BufferOf);
  DefineDlpack(&block);
  py::class_<Hit>(module, "Hit")
      .def("__len__", [](const Hit& hit) { return hit.blocks.size(); })
      .def("block", &HitBlock)
      .def("copy_out", &CopyOut)
      .def("prove", &Prove)
      .def("sources", &Sources)
      .def("missed", &Missed)
      .def("index", &KeyIndex)
      .def("valid", [](const Hit& hit) { return hit.blocks.valid(); })
      .def("release", [](Hit& hit) { hit.blocks.Release(); });
  py::class_<Put>(module, "Put")
      .def("block", &PutBlock)
      .def("copy_in", &CopyIn)
      .def("states", &States)
      .def("answered", [](const Put& put) { return put.blocks.answered(); })
      .def("give_back",
           [](Put& put, size_t i) {
             if (i >= put.blocks.size()) throw py::index_error(PastEnd(i, put.blocks.size()));
             put.blocks.GiveBack(i);
           })
      .def("commit", &Commit)
      .def("release", [](Put& put) { put.blocks.Release(); });
}

}  // namespace kvtier::python
