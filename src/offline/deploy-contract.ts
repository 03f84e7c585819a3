import { planDeploy } from '../actors/money/evm-deploy.ts'
import type { Environment } from '../settings/config.ts'
import { OfflineError, offlineSettings } from './storage.ts'

export type { Deployed, DeployPlan } from '../actors/money/evm-deploy.ts'

/** Contract v2 on the chain of the settings. Nothing is sent before `send` is called. */
export async function deployContract(env: Environment, operator: string | null): ReturnType<typeof planDeploy> {
  const { SVC_CHAIN_RPC_URL: rpcUrl, SVC_CHAIN_ID: chainId, SVC_CHAIN_KEY: key } = offlineSettings(env)
  if (rpcUrl === null || chainId === 0 || key === null)
    throw new OfflineError('Set SVC_CHAIN_RPC_URL, SVC_CHAIN_ID and SVC_CHAIN_KEY.')
  if (!/^0x[0-9a-fA-F]{64}$/.test(key)) throw new OfflineError('SVC_CHAIN_KEY must be 0x and 64 hex digits.')
  if (!URL.canParse(rpcUrl)) throw new OfflineError('SVC_CHAIN_RPC_URL must be an http or https URL.')
  return planDeploy({ rpcUrl, chainId, key, operator })
}
