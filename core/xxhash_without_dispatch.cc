// These functions stand in for xxhash's choice of the best form for this CPU, which only its shared
// library has. A bare machine may lack that library, so they call the form of every x86-64.
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
