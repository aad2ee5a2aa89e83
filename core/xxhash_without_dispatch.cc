// core asks xxhash for the form that is best on this CPU. That choice is in xxhash's shared
// library only, which a bare machine need not have: here it is the form of every x86-64.
#include <xxhash.h>

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the names are xxhash's.
XXH64_hash_t XXH3_64bits_dispatch(const void* input, size_t bytes) {
  return XXH3_64bits(input, bytes);
}
XXH128_hash_t XXH3_128bits_dispatch(const void* input, size_t bytes) {
  return XXH3_128bits(input, bytes);
}
// NOLINTEND(readability-identifier-naming)
}
