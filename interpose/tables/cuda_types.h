// Declarations of the CUDA types that an older toolkit's headers do not have yet: our tables name them only as pointers
// and handles. Include after cuda.h or cuda_runtime_api.h.
#pragma once

#if defined(CUDA_VERSION)
#if CUDA_VERSION < 12000
struct CUlib_st;
using CUlibrary = CUlib_st*;
enum CUlibraryOption : int;
struct CUDA_GRAPH_INSTANTIATE_PARAMS;
struct CUgraphExecUpdateResultInfo;
enum CUdriverProcAddressQueryResult : int;
#endif
#if CUDA_VERSION < 12020
struct CUgraphNodeParams;
struct CUmemLocation_v1_later;
#endif
#if CUDA_VERSION < 12030
struct CUgraphEdgeData;
#endif
#if CUDA_VERSION < 12040
using CUgreenCtx = struct CUgreenCtx_st*;
#endif
#if CUDA_VERSION < 12060
struct CUmemDecompressParams;
#endif
#if CUDA_VERSION < 12080
struct CUmemcpyAttributes_v1;
struct CUDA_MEMCPY3D_BATCH_OP_v1;
#endif
#endif

#if defined(CUDART_VERSION)
#if CUDART_VERSION < 12000
struct cudaGraphInstantiateParams;
enum cudaDriverEntryPointQueryResult : int;
#endif
#if CUDART_VERSION < 12010
using cudaKernel_t = struct CUkern_st*;
#endif
#if CUDART_VERSION < 12030
struct cudaGraphEdgeData;
#endif
#if CUDART_VERSION < 12080
using cudaLibrary_t = struct CUlib_st*;
struct cudaMemcpyAttributes;
struct cudaMemcpy3DBatchOp;
#endif
#if CUDART_VERSION < 13010
using cudaExecutionContext_t = struct cudaExecutionContext_st*;
#endif
#endif
