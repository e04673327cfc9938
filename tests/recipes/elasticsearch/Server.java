import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.Plugin;

/** A node of Elasticsearch on loopback, in a folder: FOLDER PLUGIN... Prints its address when it is ready. */
public class Server extends Node {
    Server(Environment environment, List<Class<? extends Plugin>> plugins) {
        super(environment, plugins, false);
    }

    /** Release 6 asks for it, later ones do not. */
    protected void registerDerivedNodeNameWithLogger(String name) {}

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("node.name", "node")
            .put("network.host", "127.0.0.1")
            .put("http.port", "0")
            .put("transport.port", "0")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        List<Class<? extends Plugin>> plugins = new ArrayList<>();
        for (String name : List.of(arguments).subList(1, arguments.length)) {
            plugins.add(Class.forName(name).asSubclass(Plugin.class));
        }
        Server server = new Server(new Environment(settings, Path.of(arguments[0])), plugins);
        server.start();
        System.out.println("http://" + server.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress());
        Thread.currentThread().join();
    }
}
