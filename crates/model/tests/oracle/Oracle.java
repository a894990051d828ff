import java.io.*; import java.nio.ByteBuffer; import java.nio.charset.StandardCharsets; import java.util.*;
import org.apache.cassandra.db.marshal.*; import org.apache.cassandra.utils.*; import org.apache.cassandra.transport.ProtocolVersion;
/** Asks Cassandra's own classes: lines "operation TAB class TAB arguments" in, the same lines with the answer appended out. */
public class Oracle {
  static ByteBuffer hex(String s){ return ByteBufferUtil.hexToBytes(s.substring(2)); }
  static String hex(ByteBuffer b){ return "0x"+ByteBufferUtil.bytesToHex(b); }
  static String esc(String s){ return s.replace("\\","\\\\").replace("\n","\\n").replace("\t","\\t"); }
  static org.apache.cassandra.schema.ColumnMetadata C=org.apache.cassandra.schema.ColumnMetadata.regularColumn("k","t","v",BytesType.instance);
  static org.apache.cassandra.db.rows.Cell<?> cell(String s){ String[] p=s.split(","); return new org.apache.cassandra.db.rows.BufferCell(C, Long.parseLong(p[0]), Integer.parseInt(p[1]), p[2].equals("-")?Long.MAX_VALUE:Long.parseLong(p[2]), hex(p[3]), null); }
  static org.apache.cassandra.db.LivenessInfo marker(String s){ String[] p=s.split(","); int ttl=Integer.parseInt(p[1]); return ttl==0 ? org.apache.cassandra.db.LivenessInfo.create(Long.parseLong(p[0]), 0, 0) : org.apache.cassandra.db.LivenessInfo.withExpirationTime(Long.parseLong(p[0]), ttl, Long.parseLong(p[2])); }
  static String other(String[] f) throws Exception { switch(f[0]){
    case "terms": { Map<String,String> o=new HashMap<>(); for(String e: f[2].split(",")) if(!e.isEmpty()) o.put(e.split("=")[0], e.split("=")[1]);
      var analyzer=(org.apache.cassandra.index.sasi.analyzer.AbstractAnalyzer)Class.forName("org.apache.cassandra.index.sasi.analyzer."+f[1]).getDeclaredConstructor().newInstance();
      analyzer.init(o, UTF8Type.instance); analyzer.reset(UTF8Type.instance.decompose(f[3]));
      StringJoiner terms=new StringJoiner("|"); while(analyzer.hasNext()) terms.add(UTF8Type.instance.compose(analyzer.next())); return terms.toString(); }
    case "token": return ""+org.apache.cassandra.dht.Murmur3Partitioner.instance.getToken(hex(f[1])).getTokenValue();
    case "cell": { org.apache.cassandra.db.rows.Cell<?> a=cell(f[1]), b=cell(f[2]); return org.apache.cassandra.db.rows.Cells.reconcile(a,b)==a?"1":"2"; }
    case "marker": return ""+marker(f[1]).supersedes(marker(f[2]));
    case "counter": return hex(org.apache.cassandra.db.context.CounterContext.instance().merge(hex(f[1]),hex(f[2])))+"\t"+org.apache.cassandra.db.context.CounterContext.instance().total(hex(f[1]), ByteBufferAccessor.instance); }
    return "?"; }
  public static void main(String[] a) throws Exception {
    ((ch.qos.logback.classic.Logger)org.slf4j.LoggerFactory.getLogger("ROOT")).setLevel(ch.qos.logback.classic.Level.OFF);
    org.apache.cassandra.config.DatabaseDescriptor.toolInitialization();
    BufferedReader in=new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)); String l;
    PrintStream out=new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
    while((l=in.readLine())!=null){ if(l.isBlank()||l.startsWith("#")){out.println(l);continue;}
      String[] f=l.split("\t",-1); String r; 
      try{ if (f[0].equals("terms") || f[0].equals("token") || f[0].equals("cell") || f[0].equals("marker") || f[0].equals("counter")) r = other(f); else { AbstractType<?> t=TypeParser.parse(f[1].replaceAll("(?<![\\w.])(\\w+(Type|Date))\\b","org.apache.cassandra.db.marshal.$1"));
        switch(f[0]){
          case "type": r=t.asCQL3Type()+"\t"+t.toString()+"\t"+t.valueLengthIfFixed(); break;
          case "lit": r=hex(t.fromString(f[2])); break;
          case "val": t.validate(hex(f[2])); r="ok"; break;
          case "cmp": r=""+Integer.signum(t.compare(hex(f[2]),hex(f[3]))); break;
          case "bytes": { var s=new org.apache.cassandra.db.ClusteringComparator(t).asByteComparable(org.apache.cassandra.db.Clustering.make(hex(f[2]))).asComparableBytes(org.apache.cassandra.utils.bytecomparable.ByteComparable.Version.OSS50);
            r="0x"+ByteBufferUtil.bytesToHex(ByteBuffer.wrap(org.apache.cassandra.utils.bytecomparable.ByteSourceInverse.readBytes(s))); break; }
          case "cql": r=t.asCQL3Type().toCQLLiteral(hex(f[2])); break;
          case "str": r=t.getString(hex(f[2])); break;
          case "json": r=t.toJSONString(hex(f[2]), ProtocolVersion.V5); break;
          case "unjson": r=hex(t.fromJSONObject(org.apache.cassandra.utils.JsonUtils.decodeJson(f[2])).bindAndGet(org.apache.cassandra.cql3.QueryOptions.DEFAULT)); break;
          case "key": { ByteBuffer[] v=new ByteBuffer[f.length-2]; for(int i=0;i<v.length;i++) v[i]=hex(f[i+2]); r=hex(CompositeType.build(ByteBufferAccessor.instance, v)); break; }
          case "keystr": r=hex(t.fromString(f[2])); break;
          default: r="?"; } } }
      catch(Throwable e){ r="!"+e.getClass().getSimpleName()+": "+e.getMessage(); }
      out.println(l+"\t"+esc(r)); } System.exit(0);
  } }
