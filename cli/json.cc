#include "cli/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/check.h"

namespace kvtier::cli {
namespace {

// RFC 8259: quotes, backslashes and control characters are escaped; all else is UTF-8
// already, which protobuf has made sure of.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

JsonWriter::JsonWriter() : out_("{"), closers_("}") { Count("schema_version", kJsonSchemaVersion); }

void JsonWriter::Begin() {
  KVT_CHECK(!closers_.empty());
  out_ += first_ ? "\n" : ",\n";
  out_.append(2 * closers_.size(), ' ');
  first_ = false;
}

void JsonWriter::BeginMember(absl::string_view name) {
  KVT_CHECK(!closers_.empty() && closers_.back() == '}');
  Begin();
  absl::StrAppend(&out_, Quoted(name), ": ");
}

void JsonWriter::Open(char bracket) {
  out_ += bracket;
  closers_ += bracket == '{' ? '}' : ']';
  first_ = true;
}

void JsonWriter::Count(absl::string_view name, uint64_t value) {
  BeginMember(name);
  absl::StrAppend(&out_, value);
}

void JsonWriter::Seconds(absl::string_view name, double value) {
  if (!std::isfinite(value)) return Null(name);
  BeginMember(name);
  std::string text = absl::StrFormat("%.9g", value);
  // A whole number gets a fraction, too, so that all values are read as floats.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  out_ += text;
}

void JsonWriter::Text(absl::string_view name, absl::string_view value) {
  BeginMember(name);
  out_ += Quoted(value);
}

void JsonWriter::Flag(absl::string_view name, bool value) {
  BeginMember(name);
  out_ += value ? "true" : "false";
}

void JsonWriter::Null(absl::string_view name) {
  BeginMember(name);
  out_ += "null";
}

void JsonWriter::OpenObject(absl::string_view name) {
  BeginMember(name);
  Open('{');
}

void JsonWriter::OpenArray(absl::string_view name) {
  BeginMember(name);
  Open('[');
}

void JsonWriter::OpenElement() {
  KVT_CHECK(!closers_.empty() && closers_.back() == ']');
  Begin();
  Open('{');
}

void JsonWriter::Close() {
  KVT_CHECK(!closers_.empty());
  const char closer = closers_.back();
  closers_.pop_back();
  if (!first_) {
    out_ += '\n';
    out_.append(2 * closers_.size(), ' ');
  }
  out_ += closer;
  first_ = false;
}

std::string JsonWriter::Finish() {
  KVT_CHECK(closers_ == "}");
  Close();
  return out_ + "\n";
}

}  // namespace kvtier::cli
