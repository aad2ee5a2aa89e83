// LayoutDigest tells builds apart that mean different things by one version of the wire. It is
// compared in every handshake, so that until the first release a version may change: what two
// sides lay out differently is refused, and never misread.
#ifndef KVTIER_PROTO_LAYOUT_DIGEST_H_
#define KVTIER_PROTO_LAYOUT_DIGEST_H_

#include <cstdint>
#include <string>

namespace kvtier::wire {

// Returns the digest of all that `version` puts on wires and in shared memory. proto/CMakeLists.txt
// takes it of the text of the .proto files, of session_packets.h and of residency_words.h, without
// comments and spaces. 0: this program does not know the version.
uint64_t LayoutDigest(uint32_t version);
// Returns 16 hexadecimal digits, for people.
std::string LayoutText(uint64_t digest);

}  // namespace kvtier::wire

#endif  // KVTIER_PROTO_LAYOUT_DIGEST_H_
