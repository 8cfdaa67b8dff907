// Package highwater starts a broker for tests with Testcontainers for Go (github.com/testcontainers/testcontainers-go).
package highwater

import (
	"context"
	"fmt"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const port = "9092/tcp"

// Run starts a broker, and returns its container and the address for clients on this machine.
//
// The port of this machine is known only after the container has started, and the broker has to send clients to it.
// So a shell starts first, and waits for the command.
func Run(ctx context.Context, image string) (testcontainers.Container, string, error) {
	var address string
	container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        image,
			ExposedPorts: []string{port},
			Entrypoint:   []string{"sh"},
			Cmd:          []string{"-c", "until [ -s /tmp/start ]; do sleep 0.1; done; . /tmp/start"},
			WaitingFor:   wait.ForLog("ready: listening"),
			LifecycleHooks: []testcontainers.ContainerLifecycleHooks{{
				PostStarts: []testcontainers.ContainerHook{
					func(ctx context.Context, started testcontainers.Container) (err error) {
						if address, err = started.PortEndpoint(ctx, port, ""); err != nil {
							return err
						}
						command := fmt.Sprintf("exec highwater broker start --config /etc/highwater/server.properties"+
							" --property advertised.listeners=PLAINTEXT://%s\n", address)
						return started.CopyToContainer(ctx, []byte(command), "/tmp/start", 0o644)
					},
				},
			}},
		},
	})
	return container, address, err
}
