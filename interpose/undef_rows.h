// Ends one reading of the .def files: the next one gives the rows another meaning. No include guard, on purpose.
#undef TITAN_API_ID
#undef CALL
#undef CREATE
#undef CREATE_ALL
#undef MARK
#undef GROUP_START
#undef GROUP_END
#undef ASYNC_ERROR
#undef GROW_ID
#undef SYNC
