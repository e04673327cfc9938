import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints what a Kafka release defines: `config KIND TYPE NAME` and `error CODE NAME retriable|final`, one a line. Its jars
    are the class path. */
public class Definitions {
    /** Classes that define the configs of a kind, of any release. */
    private static final Map<String, List<String>> CLASSES = Map.of(
        "topic", List.of("kafka.log.LogConfig$", "org.apache.kafka.storage.internals.log.LogConfig"),
        "broker", List.of(
            "kafka.server.KafkaConfig$", "org.apache.kafka.server.config.AbstractKafkaConfig",
            "kafka.server.DynamicConfig$Broker$",
            "org.apache.kafka.server.config.DynamicConfig$Broker"),
        "client-metrics", List.of(
            "kafka.metrics.ClientMetricsConfigs", "org.apache.kafka.server.metrics.ClientMetricsConfigs"),
        "group", List.of("org.apache.kafka.coordinator.group.GroupConfig"),
        "remote-log-metadata", List.of(
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManagerConfig"));

    /** What stands before the names of the metadata manager that Kafka itself has. */
    private static final Map<String, String> PREFIXES = Map.of("remote-log-metadata", "rlmm.config.");

    public static void main(String[] none) throws ReflectiveOperationException {
        for (Map.Entry<String, List<String>> kind : CLASSES.entrySet())
            for (String name : kind.getValue())
                for (ConfigDef definition : definitions(name))
                    for (ConfigDef.ConfigKey key : definition.configKeys().values())
                        System.out.println("config " + kind.getKey() + " " + key.type + " "
                            + PREFIXES.getOrDefault(kind.getKey(), "") + key.name);
        for (Errors error : Errors.values())
            System.out.println("error " + error.code() + " " + error.name() + " "
                + (error.exception() instanceof RetriableException ? "retriable" : "final"));
    }

    private static List<ConfigDef> definitions(String name) throws ReflectiveOperationException {
        Class<?> holder;
        try {
            holder = Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return List.of();
        }
        Object object = name.endsWith("$") ? holder.getField("MODULE$").get(null) : null;
        List<ConfigDef> found = new ArrayList<>();
        for (Field field : holder.getDeclaredFields()) {
            // The broker's defaults of a topic's configs are the broker's.
            if (!ConfigDef.class.isAssignableFrom(field.getType()) || field.getName().startsWith("SERVER"))
                continue;
            if (object == null && !Modifier.isStatic(field.getModifiers()))
                continue;
            field.setAccessible(true);
            found.add((ConfigDef) field.get(object));
        }
        return found;
    }
}
