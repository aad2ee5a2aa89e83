/* Parts that C programs which test libkvtier_client share: steps that are counted, so that the exit
 * status names the one that failed, and the space they use. Included once a program. */
#ifndef KVTIER_TESTS_TESTING_C_PROGRAM_H_
#define KVTIER_TESTS_TESTING_C_PROGRAM_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kvtier.h"

static int step = 0;

/* Returns the step's number from the function when the condition does not hold. */
#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    ++step;                                                                                  \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "step %d, line %d: %s (last error: %s)\n", step, __LINE__, #condition, \
              kvtier_last_error());                                                          \
      return step;                                                                           \
    }                                                                                        \
  } while (0)

static inline kvtier_space_spec make_spec(uint64_t block_bytes) {
  kvtier_space_spec spec;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  spec.model = "c-test";
  spec.weights_digest = "0";
  spec.dtype = "float32";
  spec.layout = "layer,kv,head,token,dim";
  spec.layers = spec.kv_heads = spec.tensor_size = spec.pipeline_size = 1;
  spec.head_dim = spec.tokens_per_block = 16;
  spec.block_bytes = block_bytes;
  return spec;
}

#endif /* KVTIER_TESTS_TESTING_C_PROGRAM_H_ */
