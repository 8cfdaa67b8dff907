import com.github.dockerjava.api.command.InspectContainerResponse;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A broker for tests with Testcontainers for Java (org.testcontainers:testcontainers). Clients on this machine use
 * {@link #getBootstrapServers()}.
 *
 * <p>The port of this machine is known only after the container has started, and the broker has to send clients to it.
 * So a shell starts first, and waits for the command.
 */
public class HighwaterContainer extends GenericContainer<HighwaterContainer> {
    private static final int PORT = 9092;
    private static final String START = "/tmp/start";

    public HighwaterContainer(DockerImageName image) {
        super(image);
        withExposedPorts(PORT);
        withCreateContainerCmdModifier(container -> container.withEntrypoint("sh"));
        withCommand("-c", "until [ -s " + START + " ]; do sleep 0.1; done; . " + START);
        waitingFor(Wait.forLogMessage(".*ready: listening.*", 1));
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse container) {
        String command = "exec highwater broker start --config /etc/highwater/server.properties"
                + " --property advertised.listeners=PLAINTEXT://" + getBootstrapServers() + "\n";
        copyFileToContainer(Transferable.of(command), START);
    }

    public String getBootstrapServers() {
        return getHost() + ":" + getMappedPort(PORT);
    }
}
