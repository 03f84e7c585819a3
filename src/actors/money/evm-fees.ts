import type { Hex } from 'viem'
import type { BatchFacts } from '../../machines/charts/payout-batch.ts'
import type { RpcBlock } from './evm-rpc.ts'

/** Ethereum nodes accept a replacement from 10 % more. */
const replacementPercent = 113n

type Rpc = <T>(method: string, params: readonly unknown[]) => Promise<T>

/** Today's fees, wei for each unit of gas, or enough more than the last offer of this batch. */
export async function feesOf({ transactions }: BatchFacts, viem: typeof import('viem'), rpc: Rpc) {
  const before = transactions.at(-1)
  const previous = before === undefined ? null : viem.parseTransaction(before.raw as Hex)
  const raised = (now: bigint, old: bigint | undefined) => {
    const least = old === undefined ? 0n : (old * replacementPercent) / 100n + 1n
    return now > least ? now : least
  }
  const { baseFeePerGas } = await rpc<RpcBlock>('eth_getBlockByNumber', ['latest', false])
  if (baseFeePerGas === undefined) {
    const gasPrice = BigInt(await rpc<Hex>('eth_gasPrice', []))
    return { type: 'legacy' as const, gasPrice: raised(gasPrice, previous?.gasPrice) }
  }
  const tip = BigInt(await rpc<Hex>('eth_maxPriorityFeePerGas', []))
  const maxPriorityFeePerGas = raised(tip, previous?.maxPriorityFeePerGas)
  // Six full blocks double the base fee.
  const maxFeePerGas = raised(2n * BigInt(baseFeePerGas) + maxPriorityFeePerGas, previous?.maxFeePerGas)
  return { type: 'eip1559' as const, maxFeePerGas, maxPriorityFeePerGas }
}
