/* Runs main classes of Apache Kafka's tools one after the other in one JVM, as starting one for each takes longer than
 * what the tools do. From standard input it takes, big-endian: the number of words (int), the words (int length, UTF-8),
 * the main class first, and the tool's standard input (int length, bytes). It answers with the exit status (int), and
 * with what the tool wrote to standard output and to standard error (int length, bytes).
 */
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

public class ToolHost {
    /** A stream that stays where it is while what it writes to changes: Scala's println keeps the first one it meets. */
    private static class Switch extends OutputStream {
        private volatile ByteArrayOutputStream current = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            current.write(b);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            current.write(bytes, offset, length);
        }
    }

    /** What Exit.exit throws in place of ending the JVM. An Error, as many a tool catches every Exception. */
    private static class Exited extends Error {
        private Exited() {
            super("exit", null, false, false);
        }
    }

    private static class Call {
        private Integer status = null;

        /** The first status counts: a tool that catches everything meets its own exit and calls a second one. */
        private synchronized void exit(int wanted) {
            if (status == null) status = wanted;
            throw new Exited();
        }

        private void run(String[] words) {
            String[] arguments = new String[words.length - 1];
            System.arraycopy(words, 1, arguments, 0, arguments.length);
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException problem) {
                if (!(problem.getCause() instanceof Exited)) fail(problem.getCause());
            } catch (ReflectiveOperationException problem) {
                fail(problem);
            }
            runShutdownHooks();
        }

        /** What the end of the JVM would do: some tools close their clients and print their last lines there. */
        private void runShutdownHooks() {
            try {
                Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
                field.setAccessible(true); // --add-opens java.base/java.lang
                Map<?, ?> registered = (Map<?, ?>) field.get(null);
                List<Object> hooks = new ArrayList<>(registered.keySet());
                registered.keySet().removeAll(hooks);
                for (Object hook : hooks) ((Thread) hook).start();
                for (Object hook : hooks) ((Thread) hook).join();
            } catch (ReflectiveOperationException | InterruptedException problem) {
                fail(problem);
            }
        }

        private void fail(Throwable problem) {
            problem.printStackTrace();
            if (status == null) status = 1;
        }
    }

    private static volatile Call call;

    public static void main(String[] ignored) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(new PrintStream(System.out, false));
        Switch out = new Switch(), err = new Switch();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Class<?> exit = exitOfKafka();
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object toCall = Proxy.newProxyInstance(exit.getClassLoader(), new Class<?>[] {procedure}, (self, method, values) -> {
            call.exit((Integer) values[0]);
            return null;
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, toCall);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, toCall);
        while (true) {
            String[] words;
            try {
                words = new String[requests.readInt()];
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            for (int i = 0; i < words.length; i++) words[i] = new String(bytes(requests), StandardCharsets.UTF_8);
            InputStream input = new ByteArrayInputStream(bytes(requests));
            System.setIn(input);
            out.current = new ByteArrayOutputStream();
            err.current = new ByteArrayOutputStream();
            call = new Call();
            Thread tool = new Thread(() -> call.run(words), words[0]);
            tool.start();
            tool.join();
            System.out.flush();
            System.err.flush();
            answers.writeInt(call.status == null ? 0 : call.status);
            for (byte[] text : List.of(out.current.toByteArray(), err.current.toByteArray())) {
                answers.writeInt(text.length);
                answers.write(text);
            }
            answers.flush();
        }
    }

    /** Kafka 4.4 moved it to another package. */
    private static Class<?> exitOfKafka() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before44) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    private static byte[] bytes(DataInputStream stream) throws IOException {
        byte[] bytes = new byte[stream.readInt()];
        stream.readFully(bytes);
        return bytes;
    }
}
