import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.*;
import org.apache.cassandra.cql3.ResultSet;
import org.apache.cassandra.cql3.statements.SelectStatement;
import org.apache.cassandra.db.*;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.exceptions.CassandraException;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.service.*;
import org.apache.cassandra.transport.messages.ResultMessage;
import org.apache.cassandra.utils.ByteBufferUtil;

/** Statements in, the same statements with Cassandra's answers out, as golden.rs describes them. */
public class Ask {
    static ClientState state;

    /** As the Python driver calls a type: it sees nothing of FROZEN but in user types and tuples. */
    static String name(AbstractType<?> type) {
        AbstractType<?> t = type.unwrap();
        if (t instanceof ListType) return "list<" + name(((ListType<?>) t).getElementsType()) + ">";
        if (t instanceof SetType) return "set<" + name(((SetType<?>) t).getElementsType()) + ">";
        if (t instanceof MapType) {
            MapType<?, ?> map = (MapType<?, ?>) t;
            return "map<" + name(map.getKeysType()) + ", " + name(map.getValuesType()) + ">";
        }
        if (t instanceof UserType) return "frozen<" + ((UserType) t).getNameAsString() + ">";
        if (t instanceof TupleType) {
            StringJoiner names = new StringJoiner(", ");
            for (AbstractType<?> part : ((TupleType) t).allTypes()) names.add(name(part));
            return "frozen<tuple<" + names + ">>";
        }
        if (t instanceof VectorType) {
            VectorType<?> vector = (VectorType<?>) t;
            return "vector<" + name(vector.elementType) + ", " + vector.dimension + ">";
        }
        return t.asCQL3Type().toString();
    }

    static String columns(List<ColumnSpecification> specs, boolean full) {
        StringJoiner texts = new StringJoiner(", ");
        for (ColumnSpecification spec : specs)
            texts.add((full ? spec.ksName + "." + spec.cfName + "." : "") + spec.name + " " + name(spec.type));
        return texts.toString();
    }

    static String hex(ByteBuffer value) {
        return value == null ? "null" : value.remaining() == 0 ? "''" : ByteBufferUtil.bytesToHex(value);
    }

    static ByteBuffer value(String text) {
        if (text.equals("null")) return null;
        if (text.equals("unset")) return ByteBufferUtil.UNSET_BYTE_BUFFER;
        return ByteBufferUtil.hexToBytes(text.equals("''") ? "" : text);
    }

    static void prepare(String text, PrintStream out) {
        CQLStatement statement = QueryProcessor.parseStatement(text).prepare(state);
        statement.validate(state);
        out.println(("? " + columns(statement.getBindVariables(), true)).trim());
        StringJoiner indexes = new StringJoiner(" ");
        short[] found = statement.getPartitionKeyBindVariableIndexes();
        // The protocol has no place for them where markers belong to several tables.
        if (!ColumnSpecification.allInSameTable(statement.getBindVariables())) found = null;
        if (found != null) for (short index : found) indexes.add("" + index);
        out.println(("# " + indexes).trim());
        if (statement instanceof SelectStatement)
            out.println("= " + columns(((SelectStatement) statement).getResultMetadata().names, false));
    }

    static void execute(String text, List<ByteBuffer> values, PrintStream out) {
        CQLStatement statement = QueryProcessor.parseStatement(text).prepare(state);
        statement.validate(state);
        QueryOptions options = QueryOptions.forInternalCalls(values);
        ResultMessage message = statement.executeLocally(new QueryState(state), options);
        if (!(message instanceof ResultMessage.Rows)) return;
        ResultSet result = ((ResultMessage.Rows) message).result;
        out.println("= " + columns(result.metadata.names, false));
        for (List<ByteBuffer> row : result.rows) {
            StringJoiner cells = new StringJoiner(" ");
            for (ByteBuffer cell : row) cells.add(hex(cell));
            out.println("| " + cells);
        }
    }

    static void answer(String line, PrintStream out) {
        try {
            if (line.startsWith("PREPARE ")) {
                prepare(line.substring(8), out);
            } else if (line.startsWith("WITH ")) {
                String[] parts = line.substring(5).split(": ", 2);
                List<ByteBuffer> values = new ArrayList<>();
                for (String text : parts[0].split(" ")) values.add(value(text));
                execute(parts[1], values, out);
            } else {
                execute(line, Collections.emptyList(), out);
            }
        } catch (CassandraException e) {
            out.println(("! " + String.format("%04x", e.code().value) + " " + e.getMessage()).trim());
        } catch (Throwable e) {
            out.println("! 0000 " + e);
        }
    }

    static void run() throws Exception {
        org.slf4j.Logger root = org.slf4j.LoggerFactory.getLogger("ROOT");
        ((ch.qos.logback.classic.Logger) root).setLevel(ch.qos.logback.classic.Level.ERROR);
        DatabaseDescriptor.daemonInitialization();
        DatabaseDescriptor.createAllDirectories();
        Keyspace.setInitialized();
        CommitLog.instance.start();
        Schema.instance.loadFromDisk();
        SystemKeyspace.persistLocalMetadata();
        state = ClientState.forInternalCalls();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            if (line.matches("[!=|?#]( .*)?")) continue;
            out.println(line);
            if (!line.isBlank() && !line.startsWith("--")) answer(line, out);
        }
    }

    public static void main(String[] arguments) {
        int status = 0;
        try {
            run();
        } catch (Throwable e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }
}
