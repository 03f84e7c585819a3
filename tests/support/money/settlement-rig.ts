import type { Hex } from 'viem'
import { createEvmChain, type EvmChain } from '../../../src/actors/money/evm-chain.ts'
import { Settlement, type SettlementOptions, type SettlementVerbs } from '../../../src/actors/money/settlement.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { newId } from '../../../src/ids.ts'
import { createLog, type Log } from '../../../src/log.ts'
import { idHash, toHex } from '../../../src/protocol/receipts/merkle.ts'
import { testAudit, testTrail } from '../leaks/audit.ts'
import { waitLimitMs } from '../run/limits.ts'
import { type TestDatabase, testDatabase } from '../run/postgres.ts'
import { waitUntil } from '../run/wait-until.ts'
import { type Anvil, chainId, clients, contractAbi, deploy, operatorKey, rpcProxy, strangerKey } from './anvil.ts'
import { fundedCustomer } from './ledger.ts'
import { payFor } from './money.ts'

const silent = createLog('silent', () => {})
const hourMs = 3_600_000

/** One of a gateway that acts on the word of an admin. */
export type RiggedSettlement = Pick<Settlement, 'configured' | 'ready' | 'proofs'> &
  SettlementVerbs & { stop(): Promise<void> }

/** Payouts in a database, a contract on a chain, an RPC between that may fail, and a settlement that knows both. */
export class SettlementRig {
  readonly warnings: string[] = []
  private readonly running = new Set<{ stop(): Promise<void> }>()

  private constructor(
    readonly anvil: Anvil,
    readonly contract: Hex,
    readonly database: TestDatabase,
    readonly proxy: ReturnType<typeof rpcProxy>,
    readonly customerId: string,
    readonly chain: EvmChain,
  ) {}

  static async make(anvil: Anvil): Promise<SettlementRig> {
    const contract = await deploy(anvil)
    const database = await testDatabase({ connectionsMax: 6 })
    const proxy = rpcProxy(anvil.url)
    const chain = await createEvmChain({ rpcUrl: proxy.url, chainId, key: operatorKey, contract, confirmations: 2 })
    const customerId = await fundedCustomer(database, 10n ** 24n)
    return new SettlementRig(anvil, contract, database, proxy, customerId, chain)
  }

  /** A public node with an address of its own and one payout of 90 % of `amountWei`. */
  async payout(amountWei: bigint): Promise<{ readonly nodeId: string; readonly payee: Hex; readonly hash: string }> {
    const nodeId = newId('node')
    const payee = `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(20))).toString('hex')}` as Hex
    await this.database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class,
      payout_address) values (${nodeId}, ${this.customerId}, 'agent', 'n', 'public', 'public', 'gpu', ${payee})`
    const hash = await payFor(this.database, { customerId: this.customerId, nodeId, amountWei })
    return { nodeId, payee, hash }
  }

  /** A gateway's settlement. `chain`: in place of the real one. */
  async gateway(change: Partial<SettlementOptions> = {}): Promise<RiggedSettlement> {
    const opened = openDatabase({ url: this.database.url, connectionsMax: 4 })
    const log: Log = { ...silent, warn: (event) => this.warnings.push(event) }
    const settlement = new Settlement({
      db: opened.db,
      sql: opened.sql,
      log,
      trail: testTrail(opened.db),
      chain: this.chain,
      pollMs: 20,
      leaseMs: waitLimitMs,
      batchAgeMs: hourMs,
      announceMs: 0,
      batchMinWei: 0n,
      ...change,
    })
    await settlement.start()
    const stop = settlement.stop.bind(settlement)
    const gone = {
      stop: async () => {
        this.running.delete(gone)
        await stop()
        await opened.close()
      },
    }
    this.running.add(gone)
    return {
      configured: settlement.configured,
      ready: () => settlement.ready(),
      proofs: (batchId) => settlement.proofs(batchId),
      ...settlement.by(testAudit),
      ...gone,
    }
  }

  async batch(batchId: string) {
    const [row] = await this.database.sql<
      {
        status: string
        submitted_tx_hash: string | null
        tx_nonce: string | null
        last_error: string | null
        held: boolean
        attempts: number
        settlement_block_hash: string | null
        finalized_at: string | null
        completed_at: string | null
        transactions: { hash: string; raw: Hex }[]
      }[]
    >`select * from payout_batches where batch_id = ${batchId}`
    if (row === undefined) throw new Error('no such batch')
    return row
  }

  until(batchId: string, status: string): Promise<void> {
    return waitUntil(`${batchId} is ${status}`, async () => (await this.batch(batchId)).status === status)
  }

  untilError(batchId: string, code: string): Promise<void> {
    return waitUntil(`${batchId}: ${code}`, async () => (await this.batch(batchId)).last_error === code)
  }

  /** Mines until the batch is completed. */
  async complete(batchId: string): Promise<void> {
    await waitUntil(
      `${batchId} is completed`,
      async () => {
        await this.anvil.mine()
        return (await this.batch(batchId)).status === 'completed'
      },
      15_000,
    )
  }

  /** How often the contract took the batch, and what it holds of it. */
  async onChain(
    batchId: string,
  ): Promise<{ readonly settled: number; readonly remaining: bigint; readonly held: bigint }> {
    const { reader } = clients(this.anvil)
    const id = toHex(idHash(batchId)) as Hex
    const logs = await reader.getContractEvents({
      address: this.contract,
      abi: contractAbi,
      eventName: 'PayoutBatchSettled',
      args: { batchId: id },
      fromBlock: 0n,
    })
    const call = { address: this.contract, abi: contractAbi, functionName: 'remaining', args: [id] } as const
    return {
      settled: logs.length,
      remaining: await reader.readContract(call),
      held: await reader.getBalance({ address: this.contract }),
    }
  }

  /** A claim as a node makes it; rejects when the contract refuses. */
  async claim(
    batchId: string,
    proof: {
      readonly payoutId: string | null
      readonly payee: string
      readonly amountWei: bigint
      readonly proof: readonly string[]
    },
  ) {
    const { reader, writer, account } = clients(this.anvil, strangerKey)
    const id = (text: string) => toHex(idHash(text)) as Hex
    const call = {
      address: this.contract,
      abi: contractAbi,
      functionName: 'claim',
      args: [id(batchId), (proof.payoutId ?? '0x') as Hex, proof.payee as Hex, proof.amountWei, proof.proof as Hex[]],
      account,
    } as const
    await reader.simulateContract(call)
    const hash = await writer.writeContract({ ...call, chain: null })
    await this.anvil.mine()
    return reader.waitForTransactionReceipt({ hash, pollingInterval: 20 })
  }

  async stop(): Promise<void> {
    for (const one of [...this.running]) await one.stop()
    this.proxy.stop()
    await this.database.drop()
  }
}
