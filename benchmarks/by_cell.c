/* Gives the connections of amqpbench to different cells, by their order: the first one declares the queues, then come the
 * consumers, then the producers. The environment names the ports: PORTS=declaring,consumers,producers, CONSUMERS=number.
 *
 * build: cc -O2 -pthread -Dconnect=connect_by_cell -c amqpbench.c; cc -c by_cell.c; cc -pthread amqpbench.o by_cell.o
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

int connect_by_cell(int fd, const struct sockaddr *to, socklen_t size)
{
    static int made;
    const char *ports = getenv("PORTS"), *consumers = getenv("CONSUMERS");
    struct sockaddr_in own = *(const struct sockaddr_in *)to;
    int number = made++, last_consumer = consumers ? atoi(consumers) : 1;
    if (ports) {
        char *rest;
        long declaring = strtol(ports, &rest, 10), consuming = strtol(rest + 1, &rest, 10), producing = strtol(rest + 1, &rest, 10);
        own.sin_port = htons(number == 0 ? declaring : number <= last_consumer ? consuming : producing);
    }
    return connect(fd, (struct sockaddr *)&own, size);
}
