import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Edge } from '../../scripts/verdicts/edges.ts'

const file = join(import.meta.dir, '../../docs/verify/ed25519.json')
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly Edge[] }
const folder = mkdtempSync(join(tmpdir(), 'penstock-edges-'))
afterAll(() => rmSync(folder, { recursive: true }))

test.skipIf(Bun.which('go') === null)(
  '§36: the edges of Ed25519 by Go’s crypto/ed25519, which looks at no key (needs go)',
  () => {
    const source = join(folder, 'edges.go')
    writeFileSync(source, goProgram)
    const ran = Bun.spawnSync(['go', 'run', source, file], { env: { ...process.env, GOFLAGS: '' } })
    expect(ran.stderr.toString()).toBe('')
    expect(JSON.parse(ran.stdout.toString())).toEqual(Object.fromEntries(cases.map(({ name, plain }) => [name, plain])))
  },
)

const goProgram = `package main

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
)

func main() {
	var table struct {
		Cases []struct {
			Name, Message, Signature string
			PublicKey                string \`json:"public_key"\`
		}
	}
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		panic(err)
	}
	verdicts := map[string]bool{}
	for _, one := range table.Cases {
		key, _ := hex.DecodeString(one.PublicKey)
		message, _ := hex.DecodeString(one.Message)
		signature, _ := hex.DecodeString(one.Signature)
		verdicts[one.Name] = ed25519.Verify(key, message, signature)
	}
	json.NewEncoder(os.Stdout).Encode(verdicts)
}
`
