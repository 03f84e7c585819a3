import { writeFileSync } from 'node:fs'
import { compareAffinity } from './affinity.ts'
import { benchAimed } from './aimed.ts'
import { compare } from './compare.ts'
import { comparePeers } from './compare-peers.ts'
import { compareConsoles } from './consoles.ts'
import { benchCopies } from './copies.ts'
import { benchDecision } from './decision.ts'
import { compareDialects } from './dialects.ts'
import { benchDrains } from './drains.ts'
import { benchEmbeddings } from './embeddings.ts'
import { benchFleet } from './fleet.ts'
import { compareGateways } from './gateways.ts'
import { benchLedger } from './ledger.ts'
import { benchMemory } from './memory.ts'
import { benchMixture } from './mixture.ts'
import { type Bench, type Options, readOptions, UsageError, usage } from './options.ts'
import { writePage } from './page.ts'
import { comparePaid } from './paid.ts'
import { compareProcesses } from './processes.ts'
import { benchPromises } from './promises.ts'
import { writeSection } from './results.ts'
import { RigError, stopAll } from './rig.ts'
import { benchSealed } from './sealed.ts'
import { benchServers } from './servers.ts'
import { compareTunnel } from './tunnel.ts'

async function gateway(options: Options): Promise<string> {
  const { report, results } = await compare(options)
  // JSON has no Infinity: an abort that never came is null.
  if (options.out !== null)
    writeFileSync(options.out, JSON.stringify({ options, results: Object.fromEntries(results) }))
  return report
}

const benches: Readonly<Record<Bench, (options: Options) => Promise<string>>> = {
  gateway,
  peers: comparePeers,
  processes: compareProcesses,
  gateways: compareGateways,
  affinity: compareAffinity,
  decision: benchDecision,
  fleet: benchFleet,
  servers: benchServers,
  mixture: benchMixture,
  tunnel: compareTunnel,
  copies: benchCopies,
  consoles: compareConsoles,
  paid: comparePaid,
  promises: benchPromises,
  ledger: benchLedger,
  dialects: compareDialects,
  aimed: benchAimed,
  drains: (options) => benchDrains(options),
  memory: (options) => benchMemory(options),
  embeddings: (options) => benchEmbeddings(options),
  sealed: benchSealed,
}

async function run(): Promise<void> {
  const { command, ...options } = readOptions(process.argv.slice(2))
  if (command === 'help') return console.log(usage)
  const report = await benches[command](options)
  console.log(report)
  if (!options.write) return
  writeSection(command, report)
  writePage()
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.on(signal, () => void stopAll().then(() => process.exit(code)))
}
let code = 0
try {
  await run()
} catch (error) {
  code = 1
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage}`)
  else console.error(error instanceof RigError ? error.message : error)
}
await stopAll()
process.exit(code)
