import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Permission;

import org.apache.cassandra.tools.INodeProbeFactory;
import org.apache.cassandra.tools.NodeProbe;
import org.apache.cassandra.tools.NodeTool;
import org.apache.cassandra.tools.Output;

/**
 * Cassandra's nodetool in one JVM for many command lines, as a JVM for each takes seconds.
 *
 * A line of standard input is a command line, with tabs between its words. For each there is an answer on
 * standard output: a line with the exit code and the lengths in bytes of what nodetool printed on both of its
 * streams, then both.
 */
class Ask {
    /** Everything is allowed but to end the process; what had been printed by then is noted. */
    static class NoExit extends SecurityManager {
        final ByteArrayOutputStream out, err;
        /** The exit code and the lengths of what was printed; null if nothing wanted to end the process. */
        int[] end;

        NoExit(ByteArrayOutputStream out, ByteArrayOutputStream err) {
            this.out = out;
            this.err = err;
        }

        @Override
        public void checkExit(int code) {
            if (end == null)
                end = new int[] { code, out.size(), err.size() };
            throw new SecurityException("no exit");
        }

        @Override
        public void checkPermission(Permission permission) {
        }
    }

    static class Probes implements INodeProbeFactory {
        public NodeProbe create(String host, int port) throws IOException {
            return new NodeProbe(host, port);
        }

        public NodeProbe create(String host, int port, String username, String password) throws IOException {
            return new NodeProbe(host, port, username, password);
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            PrintStream printed = new PrintStream(out, true), complained = new PrintStream(err, true);
            // Some verbs do not print where they are told to.
            System.setOut(printed);
            System.setErr(complained);
            NoExit guard = new NoExit(out, err);
            System.setSecurityManager(guard);
            int code = new NodeTool(new Probes(), new Output(printed, complained)).execute(line.split("\t"));
            int[] end = guard.end == null ? new int[] { code, out.size(), err.size() } : guard.end;
            answers.print(end[0] + " " + end[1] + " " + end[2] + "\n");
            answers.write(out.toByteArray(), 0, end[1]);
            answers.write(err.toByteArray(), 0, end[2]);
            answers.flush();
        }
    }
}
