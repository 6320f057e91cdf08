# Every outside library, found once. Modules name the imported targets:
#   Threads::Threads fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json CLI11::CLI11 date::date
#   tomlplusplus::tomlplusplus LibArchive::LibArchive CURL::libcurl EXPAT::EXPAT OpenSSL::Crypto ZLIB::ZLIB
#   SQLite::SQLite3 simdjson::simdjson protobuf::libprotobuf-lite JPEG::JPEG PNG::PNG ICU::uc mlbench_microhttpd mlbench_isal
#   mlbench_yaml mlbench_sentencepiece mlbench_lmdb (where they are)
#   mlbench_gloo mlbench_mpi (where there is an MPI) mlbench_nccl and mlbench_tensorflow (where they were asked for) LibTorch::LibTorch DNNL::dnnl (where there is a oneDNN) GTest::gtest GTest::gmock

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(date REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(LibArchive REQUIRED)
find_package(CURL REQUIRED)
find_package(EXPAT REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(simdjson REQUIRED)
find_package(Protobuf REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: parts of an image are decoded by calls that it alone has
find_package(PNG REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)

# A library that CMake finds by its header and its file, as mlbench_NAME.
function(_mlbench_find name header library)
  string(TOUPPER MLBENCH_${name} variable)
  find_path(${variable}_INCLUDE ${header} REQUIRED)
  find_library(${variable}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(${variable}_INCLUDE ${variable}_LIBRARY)
  add_library(mlbench_${name} INTERFACE)
  target_include_directories(mlbench_${name} SYSTEM INTERFACE ${${variable}_INCLUDE})
  target_link_libraries(mlbench_${name} INTERFACE ${${variable}_LIBRARY})
endfunction()
# These have no CMake package of their own, but for yaml-cpp, whose package names its target one way or another.
_mlbench_find(microhttpd microhttpd.h microhttpd)
_mlbench_find(isal isa-l/crc.h isal)
_mlbench_find(yaml yaml-cpp/yaml.h yaml-cpp)

# Nor has this one, which is optional: pieces of words are learned where it is.
find_path(MLBENCH_SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
find_library(MLBENCH_SENTENCEPIECE_LIBRARY sentencepiece)
find_library(MLBENCH_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
mark_as_advanced(MLBENCH_SENTENCEPIECE_INCLUDE MLBENCH_SENTENCEPIECE_LIBRARY MLBENCH_SENTENCEPIECE_TRAIN_LIBRARY)
if(MLBENCH_SENTENCEPIECE_INCLUDE AND MLBENCH_SENTENCEPIECE_LIBRARY AND MLBENCH_SENTENCEPIECE_TRAIN_LIBRARY)
  add_library(mlbench_sentencepiece INTERFACE)
  target_include_directories(mlbench_sentencepiece SYSTEM INTERFACE ${MLBENCH_SENTENCEPIECE_INCLUDE})
  target_link_libraries(mlbench_sentencepiece INTERFACE
    ${MLBENCH_SENTENCEPIECE_TRAIN_LIBRARY} ${MLBENCH_SENTENCEPIECE_LIBRARY})
else()
  message(STATUS "No SentencePiece: mlbench-pieces will not be built (Debian: libsentencepiece-dev)")
endif()

# This one, too, is optional: databases of rows are read where it is.
find_path(MLBENCH_LMDB_INCLUDE lmdb.h)
find_library(MLBENCH_LMDB_LIBRARY lmdb)
mark_as_advanced(MLBENCH_LMDB_INCLUDE MLBENCH_LMDB_LIBRARY)
if(MLBENCH_LMDB_INCLUDE AND MLBENCH_LMDB_LIBRARY)
  add_library(mlbench_lmdb INTERFACE)
  target_include_directories(mlbench_lmdb SYSTEM INTERFACE ${MLBENCH_LMDB_INCLUDE})
  target_link_libraries(mlbench_lmdb INTERFACE ${MLBENCH_LMDB_LIBRARY})
else()
  message(STATUS "No LMDB: mlbench-lmdb will not be built (Debian: liblmdb-dev)")
endif()

if(MLBENCH_WORKER)
  find_package(Gloo REQUIRED)
  # LibTorch exports the symbols of a newer Gloo; if it comes first among the
  # libraries of a program, the first Gloo call aborts. Link options stand
  # before all libraries and are inherited through static ones, so a program
  # that uses this target anywhere below names Gloo first.
  add_library(mlbench_gloo INTERFACE)
  target_include_directories(mlbench_gloo SYSTEM INTERFACE $<TARGET_PROPERTY:gloo,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_options(mlbench_gloo INTERFACE
    LINKER:--push-state,--no-as-needed $<TARGET_FILE:gloo> LINKER:--pop-state)
  target_link_libraries(mlbench_gloo INTERFACE Threads::Threads)

  # Optional. Not under the thread sanitizer, which sees neither MPI's locks nor its shared memory.
  if(NOT MLBENCH_SANITIZE STREQUAL "thread")
    find_package(MPI COMPONENTS C)
  endif()
  if(MPI_C_FOUND)
    add_library(mlbench_mpi INTERFACE)
    target_link_libraries(mlbench_mpi INTERFACE MPI::MPI_C)
    target_compile_definitions(mlbench_mpi INTERFACE OMPI_SKIP_MPICXX)
  else()
    message(STATUS "No MPI: the back end mpi will not be available (Debian: libopenmpi-dev)")
  endif()

  if(MLBENCH_NCCL)
    find_package(Nccl REQUIRED)
  endif()
endif()

if(MLBENCH_TORCH)
  find_package(LibTorch REQUIRED)
  if(MLBENCH_ONEDNN)
    find_package(OneDnn 2.6)
    if(TARGET DNNL::dnnl)
      # Both hold a oneDNN and export the same std::call_once symbols of its matrix products; the one that comes second
      # calls the other's and fails. Ours does without them (framework/native/tape/linear.cpp), so LibTorch comes first: a
      # library stands before what it depends on.
      set_property(TARGET LibTorch::LibTorch APPEND PROPERTY INTERFACE_LINK_LIBRARIES $<LINK_ONLY:DNNL::dnnl>)
    else()
      message(STATUS "No oneDNN: the framework native will not be available (Debian: libdnnl-dev)")
    endif()
  endif()
  if(MLBENCH_TENSORFLOW)
    # Not with sanitizers: their libraries do not allow the way in which TensorFlow is loaded (RTLD_DEEPBIND).
    if(MLBENCH_SANITIZE)
      message(FATAL_ERROR "MLBENCH_TENSORFLOW=ON goes without MLBENCH_SANITIZE: sanitizers refuse RTLD_DEEPBIND")
    endif()
    find_package(TensorFlow REQUIRED)
  endif()
endif()

if(MLBENCH_TESTS)
  find_package(GTest REQUIRED)

  # Oracles compare against an independent PyTorch; the python3 on the PATH may lack it.
  if(NOT MLBENCH_TEST_PYTHON)
    foreach(python /usr/bin/python3 python3)
      execute_process(COMMAND ${python} -c "import numpy, torch" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      if(NOT failed)
        set(MLBENCH_TEST_PYTHON ${python} CACHE STRING "A Python that imports torch, for oracles")
        break()
      endif()
    endforeach()
    if(NOT MLBENCH_TEST_PYTHON)
      message(STATUS "No Python that imports torch: oracle tests will be skipped (Debian: python3-torch)")
    endif()
  endif()
endif()
