import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.iceberg.IcebergBuild;

/**
 * Answers questions about tables with Iceberg's own library, as one long-lived process.
 *
 * <p>Each line of standard input is a JSON object whose "do" names a command. The answer is one line: {"answer": …}, or {"error":
 * the exception's class, "message": its text, "trace": its stack} where the command raised. The process ends with its input.
 */
public final class Reference {
  static final ObjectMapper JSON = new ObjectMapper();

  interface Command {
    JsonNode run(JsonNode request) throws Exception;
  }

  private static final Map<String, Command> COMMANDS = new LinkedHashMap<>();

  static {
    COMMANDS.put("version", request -> JSON.getNodeFactory().textNode(IcebergBuild.version()));
    COMMANDS.put("steps", Steps::run);
    COMMANDS.put("rows", Rows::read);
    COMMANDS.put("claims", Claims::check);
    COMMANDS.put("files", Claims::files);
    COMMANDS.put("small_world", SmallWorlds::answer);
    COMMANDS.put("write new types", NewTypes::write);
    COMMANDS.put("read new types", NewTypes::read);
  }

  private Reference() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err); // what a library prints must not be taken for an answer
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.println(JSON.writeValueAsString(answer(line)));
    }
  }

  private static ObjectNode answer(String line) {
    ObjectNode answer = JSON.createObjectNode();
    try {
      JsonNode request = JSON.readTree(line);
      Command command = COMMANDS.get(request.path("do").asText());
      if (command == null) {
        throw new IllegalArgumentException("unknown command " + request.path("do") + "; expected one of " + COMMANDS.keySet());
      }
      answer.set("answer", command.run(request));
    } catch (Throwable error) {
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace));
      answer.put("error", error.getClass().getName()).put("message", error.getMessage()).put("trace", trace.toString());
    }
    return answer;
  }
}
