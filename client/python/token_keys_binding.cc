#include "client/python/token_keys_binding.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/python/arguments.h"
#include "client/python/raise.h"
#include "client/token_keys.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

using TokensPerBlock = Named<"tokens_per_block", int64_t>;

// Token ids of a caller: the memory of a buffer, which is held, or a copy of a sequence. Made and
// destroyed under the GIL, used without it.
class Tokens {
 public:
  explicit Tokens(const py::object& object) {
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
      if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
        PyErr_Clear();
        throw py::value_error("tokens must be a contiguous buffer");
      }
      if (FromBuffer()) return;
      const std::string said = view_.format != nullptr ? view_.format : "B";
      const int dimensions = view_.ndim;
      PyBuffer_Release(&view_);
      throw py::value_error("tokens is a buffer of format \"" + said + "\" and " +
                            std::to_string(dimensions) +
                            " dimensions; must be integers of 32 or 64 bits, in one");
    }
    FromSequence(object);
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;
  ~Tokens() { PyBuffer_Release(&view_); }

  TokenIds ids() const { return ids_; }

 private:
  template <typename T>
  std::span<const T> SpanOf() const {
    return {static_cast<const T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }

  // Reads the buffer's ids; returns false if its items are no integers of 32 or 64 bits.
  bool FromBuffer() {
    const char* format = view_.format != nullptr ? view_.format : "B";
    if (*format == '@' || *format == '=' || *format == '<') ++format;  // Native order.
    if (view_.ndim != 1 || std::strlen(format) != 1) return false;
    const bool is_signed = std::strchr("ilq", *format) != nullptr;
    if (!is_signed && std::strchr("ILQ", *format) == nullptr) return false;
    if (view_.itemsize == sizeof(int32_t)) {
      ids_ = is_signed ? TokenIds(SpanOf<int32_t>()) : TokenIds(SpanOf<uint32_t>());
    } else {
      ids_ = is_signed ? TokenIds(SpanOf<int64_t>()) : TokenIds(SpanOf<uint64_t>());
    }
    return true;
  }

  void FromSequence(const py::object& object) {
    const py::object items = py::reinterpret_steal<py::object>(
        PySequence_Fast(object.ptr(), "tokens must be a buffer or a sequence of integers"));
    if (!items) throw py::error_already_set();
    const py::ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
    copied_.reserve(static_cast<size_t>(count));
    for (py::ssize_t i = 0; i < count; ++i) {
      PyObject* const item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      int overflow = 0;
      const long long id = PyLong_AsLongLongAndOverflow(item, &overflow);
      if (overflow != 0) {
        throw py::value_error("tokens[" + std::to_string(i) + "] is " +
                              std::string(py::str(py::handle(item))) +
                              "; must be 0 to 9223372036854775807");
      }
      if (id == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        RefuseType<int64_t>("tokens[" + std::to_string(i) + "]", item, /*or_none=*/false);
      }
      copied_.push_back(id);
    }
    ids_ = std::span<const int64_t>(copied_);
  }

  Py_buffer view_{};  // The buffer, empty if there is none.
  std::vector<int64_t> copied_;
  TokenIds ids_;
};

VllmExtraKeys ExtraKeysFrom(const py::tuple& items, bool in_tuple) {
  VllmExtraKeys keys;
  for (const py::handle item : items) {
    if (item.is_none()) {
      keys.None();
    } else if (py::isinstance<py::str>(item)) {
      keys.Text(item.cast<std::string>());
    } else if (py::isinstance<py::bytes>(item)) {
      keys.Bytes(item.cast<std::string>());
    } else if (PyLong_CheckExact(item.ptr())) {
      if (!Fits<int64_t>(item)) RefuseType<int64_t>("an int in extra_keys", item, false);
      keys.Integer(item.cast<int64_t>());
    } else if (py::isinstance<py::tuple>(item) && !in_tuple) {
      keys.Tuple(ExtraKeysFrom(py::reinterpret_borrow<py::tuple>(item), true));
    } else {
      throw py::type_error("extra_keys has an item that is " + Shown(item) +
                           "; must be str, bytes, int, None or a tuple of these");
    }
  }
  return keys;
}

// Returns the hashes of an argument that is None or one value, for all blocks, or a list with one
// for each full block.
template <typename Make>
std::vector<TokenHash> HashesFrom(const py::object& given, const Make& make) {
  std::vector<TokenHash> hashes;
  if (!py::isinstance<py::list>(given)) {
    hashes.push_back(make(given));
    return hashes;
  }
  for (const py::handle one : given) hashes.push_back(make(one));
  return hashes;
}

TokenHash PlainFrom(const py::handle& extra) {
  if (extra.is_none()) return TokenHash::Plain();
  if (!py::isinstance<py::bytes>(extra)) {
    throw py::type_error("extra is " + Shown(extra) + "; must be bytes or a list of bytes");
  }
  return TokenHash::Plain(extra.cast<std::string>());
}

TokenHash VllmFrom(const py::handle& extra_keys, const std::string& seed) {
  if (extra_keys.is_none()) return TokenHash::Vllm({}, seed);
  if (!py::isinstance<py::tuple>(extra_keys)) {
    throw py::type_error("extra_keys is " + Shown(extra_keys) +
                         "; must be a tuple or a list of tuples");
  }
  return TokenHash::Vllm(ExtraKeysFrom(py::reinterpret_borrow<py::tuple>(extra_keys), false), seed);
}

py::list KeysOf(const std::vector<TokenHash>& hashes, const py::object& tokens,
                int64_t tokens_per_block, const std::optional<py::bytes>& parent) {
  if (tokens_per_block < 1 || tokens_per_block > std::numeric_limits<uint32_t>::max()) {
    throw py::value_error("tokens_per_block is " + std::to_string(tokens_per_block) +
                          "; must be 1 to 4294967295");
  }
  const auto block_tokens = static_cast<uint32_t>(tokens_per_block);
  std::optional<EngineKey> before;
  if (parent) {
    const absl::StatusOr<EngineKey> key = EngineKey::FromBytes(std::string(*parent));
    if (!key.ok()) throw py::value_error("parent: " + std::string(key.status().message()));
    before = *key;
  }
  const Tokens held(tokens);
  absl::StatusOr<std::vector<EngineKey>> keys = std::vector<EngineKey>();
  {
    py::gil_scoped_release release;
    keys = HashTokens(hashes, block_tokens, held.ids(), before);
  }
  py::list out;
  for (const EngineKey& key : ValueOrRaise(std::move(keys))) {
    out.append(py::bytes(key.bytes().data(), key.bytes().size()));
  }
  return out;
}

}  // namespace

void BindTokenKeys(py::module_& module) {
  module.def("token_keys", [](const py::object& tokens, TokensPerBlock tokens_per_block,
                              const Parent& parent, const py::object& extra) {
    return KeysOf(HashesFrom(extra, &PlainFrom), tokens, tokens_per_block, parent);
  });
  module.def("vllm_token_keys",
             [](const py::object& tokens, TokensPerBlock tokens_per_block, const Parent& parent,
                const py::object& extra_keys, const Named<"seed", std::string>& seed) {
               const auto make = [&seed](const py::handle& keys) { return VllmFrom(keys, seed); };
               return KeysOf(HashesFrom(extra_keys, make), tokens, tokens_per_block, parent);
             });
}

}  // namespace kvtier::python
