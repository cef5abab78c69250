#!/bin/sh
# A run of perl: hashes, closures, regular expressions, sorting, fork and a pipe.
# recorded: perl
exec perl - << 'END'
use strict;
my %h = map { ($_ => [$_ x 3, { n => $_ }]) } 1 .. 30000;
my @sorted = sort { $h{$a}[0] cmp $h{$b}[0] } keys %h;
print "$sorted[0] $sorted[-1]\n";
my $text = join ",", @sorted;
my $n = () = $text =~ /(\d)(\d)\1\2/g;
print "$n\n";
my @subs = map { my $k = $_; sub { $k * $_[0] } } 1 .. 1000;
print eval { my $s = 0; $s += $_->(3) for @subs; $s }, "\n";
my $pid = open(my $pipe, "-|") // die;
if (!$pid) { print "from the child\n"; exit 0 }
print <$pipe>;
END
