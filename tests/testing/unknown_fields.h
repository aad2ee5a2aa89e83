// Fields that a later version of the protocol may have added to a message.
#ifndef KVTIER_TESTS_TESTING_UNKNOWN_FIELDS_H_
#define KVTIER_TESTS_TESTING_UNKNOWN_FIELDS_H_

#include <string>

#include "core/check.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace kvtier::testing {

inline constexpr char kUnknownText[] = "a field of the next version";

// Adds one field of each wire type, under numbers that no message of this build has.
inline void AddUnknownFields(google::protobuf::MessageLite* message) {
  using google::protobuf::internal::WireFormatLite;
  std::string fields;
  {
    google::protobuf::io::StringOutputStream bytes(&fields);
    google::protobuf::io::CodedOutputStream out(&bytes);
    WireFormatLite::WriteUInt64(1000, 42, &out);
    WireFormatLite::WriteBytes(1001, kUnknownText, &out);
    WireFormatLite::WriteFixed64(1002, 7, &out);
    WireFormatLite::WriteFixed32(1003, 7, &out);
  }
  KVT_CHECK(message->ParseFromString(message->SerializeAsString() + fields));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_UNKNOWN_FIELDS_H_
