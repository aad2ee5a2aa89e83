#include "client/python/paged_kv_binding.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/python/blocks_binding.h"
#include "client/python/named.h"
#include "client/python/raise.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

using SequenceArgument = Named<"sequence", uint64_t>;
using PriorityArgument = Named<"priority", int32_t>;

SequenceId Id(uint64_t sequence) { return SequenceId{sequence}; }

// Makes a call, in which the agent may copy, without the GIL.
template <typename Call>
absl::Status WithoutGil(Call call) {
  const py::gil_scoped_release released;
  return call();
}

void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

uint64_t Open(PyPagedKv& self, PriorityArgument priority) {
  return static_cast<uint64_t>(self.kv->Open(priority));
}
void SetPriority(PyPagedKv& self, SequenceArgument sequence, PriorityArgument priority) {
  Check(self.kv->SetPriority(Id(sequence), priority));
}
void Append(PyPagedKv& self, SequenceArgument sequence, Named<"tokens", uint32_t> tokens) {
  Check(self.kv->Append(Id(sequence), tokens));
}
uint64_t Fork(PyPagedKv& self, SequenceArgument sequence) {
  return static_cast<uint64_t>(ValueOrRaise(self.kv->Fork(Id(sequence))));
}
void Truncate(PyPagedKv& self, SequenceArgument sequence, Named<"tokens", uint64_t> tokens) {
  Check(self.kv->Truncate(Id(sequence), tokens));
}
void Free(PyPagedKv& self, SequenceArgument sequence) { Check(self.kv->Free(Id(sequence))); }
void SwapOut(PyPagedKv& self, const Named<"sequences", std::vector<uint64_t>>& sequences) {
  std::vector<SequenceId> ids;
  ids.reserve(sequences.value.size());
  for (const uint64_t sequence : sequences.value) ids.push_back(Id(sequence));
  Check(WithoutGil([&] { return self.kv->SwapOut(ids); }));
}
void SwapIn(PyPagedKv& self, SequenceArgument sequence) {
  const absl::Status status = WithoutGil([&] { return self.kv->SwapIn(Id(sequence)); });
  if (absl::IsDataLoss(status)) {
    PyErr_SetString(PyExc_OSError, std::string(status.message()).c_str());
    throw py::error_already_set();
  }
  Check(status);
}
std::optional<uint64_t> NextReturn(const PyPagedKv& self) {
  const std::optional<SequenceId> next = self.kv->NextReturn();
  if (!next) return std::nullopt;
  return static_cast<uint64_t>(*next);
}
std::vector<uint64_t> Victims(const PyPagedKv& self, Named<"beneficiary", uint64_t> beneficiary,
                              Named<"slots", uint64_t> slots) {
  const std::vector<SequenceId> ids = ValueOrRaise(self.kv->Victims(Id(beneficiary), slots));
  std::vector<uint64_t> numbers;
  numbers.reserve(ids.size());
  for (const SequenceId id : ids) numbers.push_back(static_cast<uint64_t>(id));
  return numbers;
}
std::vector<uint32_t> Slots(const PyPagedKv& self, SequenceArgument sequence) {
  return ValueOrRaise(self.kv->slots(Id(sequence)));
}
py::tuple Facts(const PyPagedKv& self, SequenceArgument sequence) {
  const SequenceFacts facts = ValueOrRaise(self.kv->Facts(Id(sequence)));
  return py::make_tuple(facts.tokens, facts.blocks_out, facts.swapped_out);
}
py::tuple Fragmented(const PyPagedKv& self) {
  const Fragmentation measured = self.kv->Measure();
  return py::make_tuple(measured.room, measured.unused);
}
Block Memory(const PyPagedKv& self) {
  const std::span<std::byte> memory = self.kv->memory().memory();
  return {.mapping = self.kv->memory().keep_mapped(),
          .data = memory.data(),
          .size = memory.size(),
          .read_only = false};
}

}  // namespace

void BindPagedKv(py::module_& module) {
  py::class_<PyPagedKv>(module, "PagedKv")
      .def("open", &Open)
      .def("set_priority", &SetPriority)
      .def("append", &Append)
      .def("fork", &Fork)
      .def("truncate", &Truncate)
      .def("free", &Free)
      .def("swap_out", &SwapOut)
      .def("swap_in", &SwapIn)
      .def("next_return", &NextReturn)
      .def("victims", &Victims)
      .def("slots", &Slots)
      .def("facts", &Facts)
      .def("fragmentation", &Fragmented)
      .def("memory", &Memory)
      .def("valid", [](const PyPagedKv& self) { return self.kv->memory().valid(); })
      .def("free_slots", [](const PyPagedKv& self) { return self.kv->free_slots(); })
      .def("granted_slots", [](const PyPagedKv& self) { return self.kv->memory().size(); })
      .def("slot_bytes", [](const PyPagedKv& self) { return self.kv->memory().slot_bytes(); })
      .def("swapped_bytes", [](const PyPagedKv& self) { return self.kv->swapped_bytes(); })
      .def("copied_blocks", [](const PyPagedKv& self) { return self.kv->copied_blocks(); });
}

}  // namespace kvtier::python
