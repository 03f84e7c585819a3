import { startEmbedded } from '../../../src/db/embedded/embedded.ts'

/**
 * Supervises the server of the folder named as argument until SIGTERM; one line of JSON says how the start went. Second
 * argument: after how many seconds a server ends whose supervisor was killed.
 */
const events: string[] = []
const note = (event: string, fields?: object) => events.push(`${event} ${Object.values(fields ?? {}).join(' ')}`.trim())
try {
  const database = await startEmbedded({
    dataDir: process.argv[2] ?? '',
    log: { info: note, warn: note },
    durable: false,
    preferNobody: true,
    ...(process.argv[3] === undefined ? {} : { orphanGraceSeconds: Number(process.argv[3]) }),
  })
  process.on('SIGTERM', async () => {
    await database.stop()
    process.exit(0)
  })
  setInterval(() => {}, 60_000)
  console.log(JSON.stringify({ url: database.url, events }))
} catch (error) {
  console.log(JSON.stringify({ error: String(error) }))
  process.exit(1)
}
