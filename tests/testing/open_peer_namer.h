// OpenPeerNamer() names blocks of the open tenant for other nodes.
#ifndef KVTIER_TESTS_TESTING_OPEN_PEER_NAMER_H_
#define KVTIER_TESTS_TESTING_OPEN_PEER_NAMER_H_

#include "core/peer_namer.h"

namespace kvtier::testing {

inline PeerNamer OpenPeerNamer() { return PeerNamer(PeerKey::FromSecret("")); }

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_OPEN_PEER_NAMER_H_
