#!/bin/sh
# A run of java: a compiler at run time with its own arenas, SIGSEGV as a matter of course, native deflaters, a hundred threads.
# time: 180
# recorded: java
cat > Small.java << 'END'
import java.util.*;
import java.util.zip.*;
class Small {
    static long work(int seed) throws Exception {
        var deflater = new Deflater();
        deflater.setInput(new byte[100000 + seed]);
        deflater.finish();
        long length = deflater.deflate(new byte[200000]);
        deflater.end();
        var map = new TreeMap<String, Integer>();
        for (int i = 0; i < 5000; i++) map.merge(Integer.toString(i * seed % 777), i, Integer::sum);
        return length + map.values().stream().mapToLong(i -> i).sum();
    }
    public static void main(String[] arguments) throws Exception {
        long[] sums = new long[100];
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < 100; i++) {
            int seed = i;
            var thread = new Thread(() -> { try { sums[seed] = work(seed); } catch (Exception e) { throw new RuntimeException(e); } });
            thread.start();
            threads.add(thread);
        }
        for (var thread : threads) thread.join();
        System.out.println(Arrays.stream(sums).sum());
        try { ((String) null).length(); } catch (NullPointerException e) { System.out.println("null"); }
    }
}
END
exec java -XX:+UseSerialGC -Xmx256m Small.java
