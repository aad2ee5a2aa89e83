// PeerNamer makes what agents tell each other and the coordinator of one tenant's blocks, and reads
// what other agents of the tenant made: the names of blocks and the proofs that travel with their
// bytes. It needs the tenant's PeerKey, which workers of other tenants do not get. So nobody who
// knows BlockKeys alone can ask another node or the coordinator for a block, or send one.
//
//   PeerName = AES-256 of the BlockKey's 16 bytes as one block: a permutation, so that the holder
//              computes the BlockKey, and needs no second index
//   mac      = first half of HMAC-SHA-256 over a tag, key, space, length, parent and sum
//   PeerTag  = 64 bits of HMAC-SHA-256 over a tag: tells a holder which tenant's key made a name
//
// Each has a subkey of its own. The proof binds the payload's sum and not its bytes: who sees a
// proof, and can make bytes of the same XXH3-128, can put them in place of the block's.
//
// Not thread-safe, const functions included: the ciphers have state while they run.
#ifndef KVTIER_CORE_PEER_NAMER_H_
#define KVTIER_CORE_PEER_NAMER_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/hmac_sha256.h"
#include "core/peer_key.h"
#include "core/peer_name.h"

namespace kvtier {

class PeerNamer {
 public:
  explicit PeerNamer(const PeerKey& key);

  PeerTag tag() const { return tag_; }
  PeerName NameOf(const BlockKey& key) const;
  BlockKey KeyOf(const PeerName& name) const;
  // Return the names of the keys, and the keys of the names, in their order. A hundred cost little
  // more than ten.
  std::vector<PeerName> NamesOf(std::span<const BlockKey> keys) const;
  std::vector<BlockKey> KeysOf(std::span<const PeerName> names) const;

  // Returns the proof that travels with the block's bytes.
  BlockProof Prove(const BlockMeta& meta) const;
  // Returns the block as its sender describes it; nullopt: no agent with the tenant's secret made
  // this proof for the block `key`. The payload has still to be compared with the sum.
  std::optional<BlockMeta> Check(const BlockKey& key, const BlockProof& proof) const;

 private:
  struct FreeCipher {
    void operator()(void* context) const;
  };
  using Cipher = std::unique_ptr<void, FreeCipher>;  // EVP_CIPHER_CTX

  PeerMac MacOf(const BlockMeta& meta) const;

  PeerTag tag_;
  Cipher encrypt_;
  Cipher decrypt_;
  HmacSha256 proofs_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_PEER_NAMER_H_
