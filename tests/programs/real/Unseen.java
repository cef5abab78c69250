/** 100 MiB on Java's heap. Says "ready" and waits. */
class Unseen {
    public static void main(String[] arguments) throws Exception {
        byte[][] mine = new byte[100][];
        for (int index = 0; index < mine.length; index++) {
            mine[index] = new byte[1 << 20];
            java.util.Arrays.fill(mine[index], (byte) 1);
        }
        System.out.println("ready");
        Thread.sleep(3_600_000);
        System.out.println(mine.length);
    }
}
