// Keeps direct buffers of about 20 KiB, 100 a second, and makes hot code around it, so that keep is compiled into handle. Argument: seconds.
import java.nio.ByteBuffer;
import java.util.ArrayList;

public class Keep {
    static final ArrayList<ByteBuffer> kept = new ArrayList<>();
    static long sum;

    static void keep(int size) {
        kept.add(ByteBuffer.allocateDirect(size));
    }

    static void handle(int number) {
        if (number % 2000 == 0) {
            keep(20000 + number % 7);
        }
        sum += number * 31L % 7;
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            handle(number);
            if (number % 20000 == 0) {
                Thread.sleep(100);
            }
        }
    }
}
