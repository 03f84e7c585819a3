import aiSdk from '../../docs/integrations/ai-sdk.md' with { type: 'text' }
import anthropic from '../../docs/integrations/anthropic.md' with { type: 'text' }
import claudeCode from '../../docs/integrations/claude-code.md' with { type: 'text' }
import cline from '../../docs/integrations/cline.md' with { type: 'text' }
import codex from '../../docs/integrations/codex.md' with { type: 'text' }
import continueDev from '../../docs/integrations/continue.md' with { type: 'text' }
import cursor from '../../docs/integrations/cursor.md' with { type: 'text' }
import homeAssistant from '../../docs/integrations/home-assistant.md' with { type: 'text' }
import langchain from '../../docs/integrations/langchain.md' with { type: 'text' }
import litellm from '../../docs/integrations/litellm.md' with { type: 'text' }
import llm from '../../docs/integrations/llm.md' with { type: 'text' }
import n8n from '../../docs/integrations/n8n.md' with { type: 'text' }
import obsidian from '../../docs/integrations/obsidian.md' with { type: 'text' }
import ollama from '../../docs/integrations/ollama.md' with { type: 'text' }
import openWebui from '../../docs/integrations/open-webui.md' with { type: 'text' }
import openai from '../../docs/integrations/openai.md' with { type: 'text' }
import zed from '../../docs/integrations/zed.md' with { type: 'text' }
import { isLoopback } from '../host/loopback.ts'

/** How one client is connected: the page of the documents, which command line and console show with what is real. */
export interface Guide {
  /** The name of its file. */
  readonly client: string
  readonly title: string
  readonly text: string
}

/** What stands in the pages for what a reader has. `containerUrl`: the gateway's address for a program in a container. */
export const example = {
  baseUrl: 'http://127.0.0.1:7070',
  containerUrl: 'http://host.docker.internal:7070',
  key: '$KEY',
  model: 'llama-3.1-8b',
} as const

export interface GuidePlace {
  /** Without a slash at the end. */
  readonly baseUrl: string
  /** null: none is known, and the page's own word stays. */
  readonly key: string | null
  readonly model: string | null
}

const texts: Readonly<Record<string, string>> = {
  openai,
  anthropic,
  'ai-sdk': aiSdk,
  langchain,
  litellm,
  llm,
  ollama,
  'claude-code': claudeCode,
  codex,
  continue: continueDev,
  cline,
  cursor,
  zed,
  'open-webui': openWebui,
  n8n,
  'home-assistant': homeAssistant,
  obsidian,
}

const titleOf = (text: string) => text.slice(2, text.indexOf('\n')).replaceAll('`', '')

export const guides: readonly Guide[] = Object.entries(texts).map(([client, text]) => ({
  client,
  title: titleOf(text),
  text,
}))

/** Names of variables that hold the key in a program of the page. */
const readsKey = /process\.env\.KEY|os\.environ(?:\["KEY"\]|\/KEY)/

/** In a container a loopback address is the container; this name is the computer that runs it. */
function fromContainer(baseUrl: string): string {
  const url = new URL(baseUrl)
  if (!isLoopback(url.hostname)) return baseUrl
  url.hostname = new URL(example.containerUrl).hostname
  return url.href.replace(/\/$/, '')
}

/** The page with what is real: functions, so that nothing in a key is taken for a pattern. */
export function filled({ text }: Guide, { baseUrl, key, model }: GuidePlace): string {
  const page = text
    .replaceAll(example.baseUrl, () => baseUrl)
    .replaceAll(example.containerUrl, () => fromContainer(baseUrl))
    .replaceAll(example.model, () => model ?? example.model)
    .replaceAll(example.key, () => key ?? example.key)
  if (key === null || !readsKey.test(text)) return page
  return `${page}\nThe programs above read the key from the environment:\n\n\`\`\`sh\nexport KEY=${key}\n\`\`\`\n`
}
