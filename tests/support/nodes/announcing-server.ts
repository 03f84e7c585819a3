import multicastDns from 'multicast-dns'

/** Announces a model server as those who run one do, to be run beside it: its address and its port. */
const [address = '', port = ''] = process.argv.slice(2)
const type = '_ollama._tcp.local'
const instance = `shed.${type}`
const dns = multicastDns()
dns.on('query', ({ questions }) => {
  if (questions?.some(({ name }) => name === type) !== true) return
  dns.respond({
    answers: [{ name: type, type: 'PTR', ttl: 60, data: instance }],
    additionals: [
      { name: instance, type: 'SRV', ttl: 60, data: { port: Number(port), target: 'shed.local' } },
      { name: 'shed.local', type: 'A', ttl: 60, data: address },
    ],
  })
})
dns.on('ready', () => process.stdout.write('announces\n'))
