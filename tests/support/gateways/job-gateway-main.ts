import { postPinned } from '../../../src/actors/jobs/pinned-post.ts'
import { start } from '../../../src/main.ts'

/** A gateway as shipped, whose webhooks end at the receiver of the test: a program of its own, to be killed. */
const port = Number(process.env.TEST_RECEIVER_PORT)
const ca = process.env.TEST_RECEIVER_CERTIFICATE ?? ''
const server = await start(process.env, {
  quiet: true,
  world: {
    resolve: async () => ['93.184.215.14'],
    post: (request) => postPinned({ ...request, address: '127.0.0.1', port, ca }),
  },
})
process.stdout.write(`listening ${server.url} end\n`)
process.on('SIGTERM', () => void server.stop().then(() => process.exit(0)))
