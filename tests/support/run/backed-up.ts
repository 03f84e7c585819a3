import { everyRow } from '../leaks/every-row.ts'
import { adminCall, type Bench, openBench, startEmbeddedGateway } from './offline.ts'
import { emptyDatabase } from './postgres.ts'
import { waitUntil } from './wait-until.ts'

/** A gateway with a credited customer that runs all the while, and its backup. */
export interface BackedUp {
  readonly bench: Bench
  readonly gateway: Awaited<ReturnType<typeof startEmbeddedGateway>>
  readonly dataDir: string
  readonly file: string
  /** The log key, as `backup` printed it, and its seed. */
  readonly key: string
  readonly seed: string
  close(): Promise<void>
}

export const creditedWei = 1_000_000
/** Somebody is richer, wherever the amount stands in the file. */
export const richer = (text: string) => text.replace(new RegExp(`\\t${creditedWei}\\t`, 'g'), `\t9${creditedWei}\t`)

export async function backedUpGateway(): Promise<BackedUp> {
  const bench = openBench()
  const dataDir = bench.path('data')
  const gateway = await startEmbeddedGateway(dataDir, { SVC_LOG_INTERVAL_MS: '100' })
  const admin = gateway.credentials.admin_token
  const { customer_id: customerId } = await adminCall<{ customer_id: string }>(
    gateway.url,
    admin,
    'POST',
    '/v1/admin/customers',
    { display_name: 'Ada' },
  )
  await adminCall(gateway.url, admin, 'POST', `/v1/admin/customers/${customerId}/credits`, {
    amount_wei: String(creditedWei),
    reason: 'paid',
  })
  await waitUntil('the credit in the log', async () => {
    const [, size] = (await (await fetch(`${gateway.url}/v1/public/log/checkpoint`)).text()).split('\n')
    const entries = await fetch(`${gateway.url}/v1/public/log/tile/entries/000.p/${size}`)
    return (await entries.text()).includes(':credit:')
  })
  const file = bench.path('backup.sql.gz')
  const ended = await bench.cli.run(['backup', file], { env: { SVC_DATA_DIR: dataDir } })
  return {
    bench,
    gateway,
    dataDir,
    file,
    key: /^Signed by (\S+) /m.exec(ended.out)?.[1] ?? '',
    seed: bench.headerOf(file).secrets.SVC_LOG_KEY ?? '',
    close: async () => {
      await gateway.stop()
      bench.close()
    },
  }
}

/** Restores into a database of its own. `rows`: what is there afterwards. */
export async function restoredFrom(
  { cli }: Bench,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  const database = await emptyDatabase()
  try {
    const ended = await cli.run(['restore', ...args], { env: { DATABASE_URL: database.url, ...env } })
    return { ...ended, rows: await everyRow(database.url) }
  } finally {
    await database.drop()
  }
}
