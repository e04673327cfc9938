import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Scenarios of Kafka's own client. Arguments and output are those of ledger.py. */
final class Clients {
    private static final int COUNT = 20;
    private static final long PATIENCE = 30;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final String scenario;
    private final String servers;
    private final Map<String, Object> facts = new LinkedHashMap<>();
    private final Map<String, Set<Object>> lists = new LinkedHashMap<>();
    private final List<List<Object>> delivered = new ArrayList<>();
    private final List<List<Object>> received = new ArrayList<>();
    private String what;

    private Clients(String scenario, String servers) {
        this.scenario = scenario;
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        String kind = arguments[0];
        Clients clients = new Clients(arguments[1], arguments[kind.equals("sasl") ? 3 : 2]);
        switch (kind) {
            case "codecs" -> clients.codecs();
            case "txn" -> clients.transactions();
            case "admin" -> clients.administration();
            case "errors" -> clients.errors();
            case "sasl" -> clients.sasl(json.readValue(arguments[4], json.getTypeFactory()
                .constructMapType(LinkedHashMap.class, String.class, String[].class)));
            case "connect" -> clients.connect(json.readTree(arguments[4]));
            case "settings" -> clients.configured(json.readTree(arguments[4]));
            default -> throw new IllegalArgumentException(kind);
        }
        System.out.println(json.writeValueAsString(Map.of(
            "clients", "java " + version(), "what", Objects.toString(clients.what, ""), "facts", clients.allFacts())));
    }

    private static String version() throws Exception {
        Properties told = new Properties();
        try (var file = Clients.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            told.load(file);
        }
        return told.getProperty("version");
    }

    private Map<String, Object> allFacts() {
        facts.putAll(lists);
        if (!delivered.isEmpty()) {
            facts.put("delivered", delivered);
        }
        if (!received.isEmpty()) {
            facts.put("received", received);
        }
        return facts;
    }

    private void note(String key, Object... values) {
        lists.computeIfAbsent(key, unused -> new LinkedHashSet<>()).addAll(Arrays.asList(values));
    }

    /** A name of this scenario's own, noted in that list. */
    private String named(String list, String kind) {
        String name = scenario + "-" + kind;
        note(list, name);
        return name;
    }

    private Map<String, Object> settings(String client, Object... more) {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("bootstrap.servers", servers);
        settings.put("client.id", named("client_ids", client));
        for (int i = 0; i < more.length; i += 2) {
            settings.put((String) more[i], more[i + 1]);
        }
        return settings;
    }

    private static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void create(Admin admin, int partitions, String... topics) throws Exception {
        List<NewTopic> made = Arrays.stream(topics).map(name -> new NewTopic(name, partitions, (short) 1)).toList();
        admin.createTopics(made).all().get(PATIENCE, TimeUnit.SECONDS);
    }

    /** Produce and wait until the broker has all of it. */
    private void send(KafkaProducer<String, String> producer, String topic, String pattern, int count) throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(new ProducerRecord<>(topic, "key-" + i, pattern + " " + i));
            records.get(i).headers().add("pattern", pattern.getBytes("UTF-8"));
            sent.add(producer.send(records.get(i)));
        }
        for (int i = 0; i < count; i++) {
            RecordMetadata told = sent.get(i).get(PATIENCE, TimeUnit.SECONDS);
            ProducerRecord<String, String> record = records.get(i);
            delivered.add(List.of(topic, told.partition(), told.offset(), record.key(), record.value()));
        }
    }

    private void receive(KafkaConsumer<String, String> consumer, int count) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
        for (int left = count; left > 0; ) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException(left + " records did not come");
            }
            for (ConsumerRecord<String, String> got : consumer.poll(Duration.ofMillis(500))) {
                received.add(List.of(got.topic(), got.partition(), got.offset(), got.key(), got.value()));
                left--;
            }
        }
    }

    private void codecs() throws Exception {
        what = "Java: " + COUNT + " records a codec, with keys and headers; a group reads and commits them";
        Map<String, String> compression = new LinkedHashMap<>();
        CODECS.forEach(codec -> compression.put(named("topics", codec), codec));
        try (Admin admin = Admin.create(settings("admin"))) {
            create(admin, 2, compression.keySet().toArray(String[]::new));
        }
        for (Map.Entry<String, String> entry : compression.entrySet()) {
            try (var producer = producer(settings("producer", "compression.type", entry.getValue(), "linger.ms", 20))) {
                send(producer, entry.getKey(), entry.getValue() + " " + "x".repeat(50), COUNT);
            }
        }
        List<List<Object>> committed = new ArrayList<>();
        try (var consumer = consumer(settings("consumer", "group.id", named("groups", "group")))) {
            consumer.subscribe(compression.keySet());
            receive(consumer, COUNT * CODECS.size());
            consumer.commitSync();
            consumer.committed(consumer.assignment()).forEach((part, offset) -> {
                if (offset != null) {
                    committed.add(List.of(part.topic(), part.partition(), offset.offset()));
                }
            });
        }
        facts.put("compression_of", compression);
        facts.put("last_committed", committed);
        note("api_keys_must_see", "CreateTopics", "Produce", "JoinGroup", "SyncGroup", "Fetch", "OffsetCommit",
            "LeaveGroup", "OffsetFetch");
    }

    private void transactions() throws Exception {
        what = "Java: 2 transactions committed, one of them with offsets, 1 aborted; read_committed consumer";
        String source = named("topics", "in");
        String target = named("topics", "out");
        try (Admin admin = Admin.create(settings("admin"))) {
            create(admin, 1, source, target);
        }
        try (var producer = producer(settings("producer"))) {
            send(producer, source, "in", 5);
        }
        try (var reader = consumer(settings("reader", "group.id", named("groups", "group")));
             var writer = producer(settings("writer", "transactional.id", named("transactional_ids", "id")))) {
            reader.subscribe(List.of(source));
            receive(reader, 5);
            writer.initTransactions();
            for (int number = 0; number < 3; number++) {
                writer.beginTransaction();
                send(writer, target, (number == 1 ? "abort " : "commit ") + number, 5);
                if (number == 1) {
                    writer.abortTransaction();
                    continue;
                }
                if (number == 2) {
                    writer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(source, 0), new OffsetAndMetadata(5)), reader.groupMetadata());
                }
                writer.commitTransaction();
            }
        }
        try (var checker = consumer(settings("checker", "isolation.level", "read_committed"))) {
            checker.assign(List.of(new TopicPartition(target, 0)));
            receive(checker, 10);
        }
        facts.put("committed_txns", 2);
        facts.put("aborted_txns", 1);
        facts.put("last_committed", List.of(List.of(source, 0, 5)));
        note("api_keys_must_see", "InitProducerId", "TxnOffsetCommit", "EndTxn", "Fetch");
    }

    private void administration() throws Exception {
        what = "Java: admin client: topics made, described, enlarged, deleted; configs, cluster, groups, log dirs, quorum";
        String topic = named("topics", "one");
        String other = named("topics", "two");
        try (Admin admin = Admin.create(settings("admin"))) {
            create(admin, 1, topic, other);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            admin.describeConfigs(List.of(resource)).all().get(PATIENCE, TimeUnit.SECONDS);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeTopics(List.of(topic)).allTopicNames().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeCluster().nodes().get(PATIENCE, TimeUnit.SECONDS);
            admin.listTransactions().all().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeLogDirs(List.of(1)).allDescriptions().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeMetadataQuorum().quorumInfo().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeFeatures().featureMetadata().get(PATIENCE, TimeUnit.SECONDS);
            admin.describeUserScramCredentials().all().get(PATIENCE, TimeUnit.SECONDS);
            admin.deleteTopics(List.of(other)).all().get(PATIENCE, TimeUnit.SECONDS);
        }
        note("api_keys_must_see", "CreateTopics", "DescribeConfigs", "CreatePartitions",
            "DescribeCluster", "ListTransactions", "DescribeLogDirs", "DescribeQuorum", "ApiVersions",
            "DescribeUserScramCredentials", "DeleteTopics");
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private void refused(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (ExecutionException error) {
            note("errors_expected", Errors.forException(error.getCause()).name());
            return;
        }
        throw new IllegalStateException("nothing was refused");
    }

    private void errors() throws Exception {
        what = "Java: a topic that is not there, one that is there already, a record too large";
        String topic = named("topics", "topic");
        try (Admin admin = Admin.create(settings("admin"));
             var producer = producer(settings("producer", "max.request.size", 3_000_000))) {
            create(admin, 1, topic);
            refused(() -> admin.describeTopics(List.of("no-such-topic")).allTopicNames().get(PATIENCE, TimeUnit.SECONDS));
            refused(() -> create(admin, 1, topic));
            refused(() -> send(producer, topic, "x".repeat(1_200_000), 1));
        }
    }

    private void sasl(Map<String, String[]> users) throws Exception {
        what = "Java: produces with SASL PLAIN and SCRAM-SHA-256, and is refused with a wrong password";
        String topic = named("topics", "topic");
        for (Map.Entry<String, String[]> entry : users.entrySet()) {
            String mechanism = entry.getKey();
            String user = entry.getValue()[0];
            String password = entry.getValue()[1];
            if (!lists.containsKey("users")) {
                try (Admin admin = Admin.create(secured("admin", mechanism, user, password))) {
                    create(admin, 1, topic);
                }
            }
            note("users", user);
            note("secrets", password, "not " + password);
            try (var producer = producer(secured("right-" + mechanism, mechanism, user, password))) {
                send(producer, topic, mechanism, 5);
            }
            try (Admin admin = Admin.create(secured("wrong-" + mechanism, mechanism, user, "not " + password))) {
                refused(() -> admin.listTopics().names().get(PATIENCE, TimeUnit.SECONDS));
            }
        }
        note("api_keys_must_see", "SaslHandshake", "SaslAuthenticate", "Produce");
    }

    private void connect(JsonNode asked) throws Exception {
        long patience = asked.get("seconds").asLong();
        Map<String, Object> settings = settings("client", "max.block.ms", 1000 * patience, "reconnect.backoff.ms", 500);
        if (asked.has("ca")) {
            settings.putAll(Map.of("security.protocol", "SSL", "ssl.truststore.type", "PEM",
                "ssl.truststore.location", asked.get("ca").asText()));
        }
        if (asked.has("java")) {
            asked.get("java").fields().forEachRemaining(set -> settings.put(set.getKey(), set.getValue().asText()));
        }
        KafkaProducer<String, String> producer = producer(settings);
        for (int time = 0; time < asked.get("times").asInt(); time++) {
            Thread.sleep(time > 0 ? 1000 * asked.get("silence").asLong() : 0);
            String value = "x".repeat(asked.get("size").asInt());
            try {
                producer.send(new ProducerRecord<>(asked.get("topic").asText(), value)).get(patience, TimeUnit.SECONDS);
            } catch (ExecutionException | TimeoutException error) {
                // The capture tells why.
            }
        }
        producer.close(Duration.ZERO);
    }

    private void configured(JsonNode jobs) throws Exception {
        what = "Java: clients of many settings, one after the other";
        for (JsonNode job : jobs) {
            String name = job.get("name").asText();
            String topic = named("topics", name);
            try (Admin admin = Admin.create(settings("admin"))) {
                create(admin, job.get("partitions").asInt(), topic);
            }
            Map<String, Object> settings = settings(name);
            job.get("settings").fields().forEachRemaining(set -> settings.put(set.getKey(), set.getValue().asText()));
            if (job.get("role").asText().equals("consumer")) {
                long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(job.get("seconds").asLong());
                try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                    consumer.subscribe(List.of(topic));
                    while (System.nanoTime() < until) {
                        consumer.poll(Duration.ofMillis(100));
                    }
                }
                continue;
            }
            try (var producer = producer(settings)) {
                boolean isTransactional = settings.containsKey("transactional.id");
                if (isTransactional) {
                    producer.initTransactions();
                    producer.beginTransaction();
                }
                for (int i = 0; i < job.get("records").asInt(); i++) {
                    producer.send(new ProducerRecord<>(topic, "x".repeat(job.get("size").asInt())));
                }
                if (isTransactional) {
                    producer.commitTransaction();
                }
            }
        }
    }

    private Map<String, Object> secured(String client, String mechanism, String user, String password) {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return settings(client, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism,
            "sasl.jaas.config", "org.apache.kafka.common.security." + module
                + " required username=\"" + user + "\" password=\"" + password + "\";");
    }
}
