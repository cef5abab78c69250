import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Keeps direct buffers. */
public class Direct {
    static final List<ByteBuffer> KEPT = new ArrayList<>();

    static void readFrame() {
        KEPT.add(ByteBuffer.allocateDirect(64 << 10));
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 2000; i++) readFrame();
        System.out.println("ready");
        System.in.read();
    }
}
