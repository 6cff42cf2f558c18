/* A library with one custom op, `y = Negate(x)` of floats, for the tests of op libraries. */

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/kernels.h"

/* Of tensorflow/c/ops.h, which only C++ can read. */
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
extern TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char* name);
extern void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder* builder, const char* input);
extern void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder* builder, const char* output);
extern void TF_OpDefinitionBuilderSetShapeInferenceFunction(TF_OpDefinitionBuilder* builder,
                                                            void (*function)(void* context, TF_Status* status));
extern void TF_ShapeInferenceContextSetUnknownShape(void* context, TF_Status* status);
extern void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder, TF_Status* status);

static void compute(void* kernel, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* x = NULL;
  (void)kernel;
  TF_GetInput(context, 0, &x, status);
  if (TF_GetCode(status) == TF_OK) {
    int64_t dims[8];
    int rank = TF_NumDims(x);
    for (int axis = 0; axis < rank && axis < 8; ++axis) dims[axis] = TF_Dim(x, axis);
    TF_Tensor* y = TF_AllocateOutput(context, 0, TF_FLOAT, dims, rank, TF_TensorByteSize(x), status);
    if (TF_GetCode(status) == TF_OK) {
      const float* from = TF_TensorData(x);
      float* to = TF_TensorData(y);
      for (int64_t index = 0; index < TF_TensorElementCount(x); ++index) to[index] = -from[index];
    }
    TF_DeleteTensor(y);
  }
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(context, status);
  TF_DeleteTensor(x);
  TF_DeleteStatus(status);
}

__attribute__((constructor)) static void register_op(void) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("BridgeTestNegate");
  TF_OpDefinitionBuilderAddInput(op, "x: float");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, TF_ShapeInferenceContextSetUnknownShape);
  TF_RegisterOpDefinition(op, status);
  TF_RegisterKernelBuilder("BridgeTestNegate",
                           TF_NewKernelBuilder("BridgeTestNegate", "CPU", NULL, compute, NULL), status);
  TF_DeleteStatus(status);
}
