import type { Hex } from 'viem'
import type { PayoutBatch, PayoutBatchList } from '../../../src/protocol/wire/money/money.ts'
import { type TestGateway, waitFor } from '../gateways/gateway.ts'
import { type Anvil, chainId, clients, deploy, operatorKey, startAnvil } from '../money/anvil.ts'

export const explorer = 'https://explorer.example'
/** Any call of it reverts. */
const refusingCode = '0x60006000fd'

/** A chain with the contract on it, and what a gateway has to be told of it. */
export interface ConsoleChain {
  readonly anvil: Anvil
  readonly contract: Hex
  readonly env: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** A payout batch in each way one can stand, by id. */
export interface ConsoleBatches {
  /** Paid, and final. */
  readonly completed: string
  /** Reverted three times, and waits for an operator. */
  readonly held: string
  /** In a block that is not final yet: `anvil.mine(2)` makes it so. */
  readonly submitted: string
  /** The gateway's account cannot pay for it. */
  readonly waiting: string
}

export async function startConsoleChain(): Promise<ConsoleChain> {
  const anvil = await startAnvil()
  const contract = await deploy(anvil)
  const env = {
    SVC_CHAIN_RPC_URL: anvil.url,
    SVC_CHAIN_ID: String(chainId),
    SVC_CHAIN_KEY: operatorKey,
    SVC_CHAIN_CONTRACT: contract,
    SVC_PAYOUT_ANNOUNCE_MS: '0',
    SVC_CHAIN_NAME: 'testnet',
    SVC_CHAIN_EXPLORER: `${explorer}/`,
    SVC_SETTLEMENT_POLL_MS: '500',
  }
  return { anvil, contract, env, stop: () => anvil.stop() }
}

/** Resolves with the batch once it stands so. */
export function batchThat(
  gateway: TestGateway,
  batchId: string,
  stands: (batch: PayoutBatch) => boolean | Promise<boolean>,
): Promise<PayoutBatch> {
  const look = async () => {
    const { batches } = await gateway.admin<PayoutBatchList>('GET', '/v1/admin/payout-batches')
    const batch = batches.find(({ batch_id }) => batch_id === batchId)
    return batch !== undefined && (await stands(batch)) ? batch : null
  }
  return waitFor(`batch ${batchId}`, look)
}

/** `build`: pays for work and batches it. One after the other: what troubles one is over before the next is made. */
export async function startBatches(
  { anvil, contract }: ConsoleChain,
  gateway: TestGateway,
  build: () => Promise<string>,
): Promise<ConsoleBatches> {
  const completed = await build()
  await batchThat(gateway, completed, async ({ status }) => {
    await anvil.mine()
    return status === 'completed'
  })
  const code = await anvil.rpc<string>('eth_getCode', [contract, 'latest'])
  await anvil.rpc('anvil_setCode', [contract, refusingCode])
  const held = await build()
  await batchThat(gateway, held, (batch) => batch.held)
  await anvil.rpc('anvil_setCode', [contract, code])
  const submitted = await build()
  await batchThat(gateway, submitted, (batch) => batch.settlement_block_hash !== null)
  await anvil.rpc('anvil_setBalance', [clients(anvil).account.address, '0x0'])
  const waiting = await build()
  await batchThat(gateway, waiting, (batch) => batch.last_error === 'insufficient_funds')
  return { completed, held, submitted, waiting }
}
