// Objects that only the binder reads: a "static runtime" made of labels, in several states of repair
// chosen by the macro CASE_*.
  .text
  .macro function name, bytes
  .globl \name
  .type \name, @function
\name:
  .fill \bytes, 1, 0x90
  .size \name, \bytes
  .endm
  function cudaOfTheUser, 16
#if defined(CASE_WRAPPER)
  function cudaThreadExit, 32
#endif
  function cudaMalloc, 32
#if defined(CASE_WRAPPER)
  function cudaLogsCurrent, 32
#endif
#if defined(CASE_SHORT)
  function cudaFree, 8
#else
  function cudaFree, 13
#endif
#if defined(CASE_OLDER)
  function cudaThreadExit, 32
#endif
#if defined(CASE_UNKNOWN)
  function cudaFromTheFuture, 32
#endif
#if defined(CASE_INTERLEAVED)
  function __cudaRegisterLinkedBinary_0123abcd_4_x_cu_5678, 32
  function __cudaUnregisterBinaryUtil, 8
#endif
  function __cudaRegisterFatBinary, 32
  .globl main
  .type main, @function
main:
  xor %eax, %eax
  ret
  .size main, . - main
  .section .nv_fatbin, "a"
  .quad 0
  .section .note.GNU-stack, "", @progbits
