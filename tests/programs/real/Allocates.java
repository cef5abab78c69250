import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;

/** Objects in Java's heap, native memory in Deflater, threads; ends with status 5. */
public class Allocates {
    public static void main(String[] arguments) throws Exception {
        Map<Integer, List<String>> kept = new HashMap<>();
        for (int number = 0; number < 50_000; number++) {
            kept.computeIfAbsent(number % 100, key -> new ArrayList<>()).add("number " + number);
        }
        System.out.println(kept.get(7).size() + " " + kept.get(7).get(300));
        long packed = 0;
        byte[] input = new byte[10_000];
        byte[] output = new byte[20_000];
        for (int round = 0; round < 30; round++) {
            Deflater deflater = new Deflater();
            for (int at = 0; at < input.length; at++) {
                input[at] = (byte) (at * round % 251);
            }
            deflater.setInput(input);
            deflater.finish();
            packed += deflater.deflate(output);
            deflater.end();
        }
        System.out.println(packed > 0);
        Thread[] threads = new Thread[4];
        int[] sums = new int[threads.length];
        for (int number = 0; number < threads.length; number++) {
            int mine = number;
            threads[number] = new Thread(() -> {
                for (int at = 0; at < 20_000; at++) {
                    sums[mine] += String.valueOf(at).length();
                }
            });
            threads[number].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(sums[0] + sums[1] + sums[2] + sums[3]);
        System.exit(5);
    }
}
