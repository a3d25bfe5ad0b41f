#!/bin/sh
# seal.sh OBJCOPY AR ARCHIVE LINKER... -- OBJECT...
# Makes a static library of one member in which only the exported functions are visible. Hidden
# symbols are still global between the members of an archive, so a name inside the library could
# otherwise collide with one in the program that links it.
set -eu
objcopy=$1 ar=$2 archive=$3
shift 3
whole=${archive%.a}.o
link=
while [ "$1" != -- ]; do
    link="$link $1"
    shift
done
shift
$link -r -nostdlib -o "$whole" "$@"
"$objcopy" --localize-hidden "$whole"
rm -f "$archive"
"$ar" rcs "$archive" "$whole"
rm -f "$whole"
