"""A thousand hosts, a hundred live jobs."""
import sys, time
sys.path.insert(0, "/work/main")
from datetime import UTC, datetime, timedelta
import pytest
from sqlalchemy import text
from fastapi.testclient import TestClient

def test_it(api, sessions, engine):
    with sessions.begin() as s:
        x=lambda q: s.execute(text(q))
        x("insert into hosts (name, info) select 'host-'||i, '{\"memory_bytes\": 68719476736}' from generate_series(1,1000) i")
        x("insert into slots (host, index, kind, name, memory_bytes) select 'host-'||i, k, 'gpu', 'H100', 85899345920 from generate_series(1,1000) i, generate_series(0,7) k")
        x("insert into host_samples select 'host-'||i, now() - k*interval '1 s', 50.5, 12345678901, 1e6, 2e6, 3e6, 4e6 from generate_series(1,1000) i, generate_series(1,100) k")
    for n in range(100):
        assert api.post("/v1/jobs", json={"dataset":"digits","batch_size":64,"learning_rate":0.001,"gpus":8,"name":f"j{n}"}).status_code==201
    with sessions.begin() as s:
        x=lambda q: s.execute(text(q))
        x("update jobs set status='running', attempt=1, started_at=now(), progress='{\"epoch\": 3, \"epochs\": 10, \"step\": 25, \"steps\": 100, \"eta_s\": 42.5, \"samples_per_s\": 640.0, \"metrics\": {\"loss\": 0.5, \"accuracy\": 0.75, \"val_loss\": 0.625, \"val_accuracy\": 0.875}}'")
        x("insert into attempts (job_id, number, host, gpus, lease_expires_at) select id, 1, 'host-1', 8, now()+interval '1 hour' from jobs")
        x("update slots set attempt_id = a.id, reading='{\"at\":\"2030\", \"percent\": 93.5, \"memory_bytes\": 123456789, \"power_w\": 310.5, \"temperature_c\": 61.0}' from (select id, row_number() over (order by id) n from attempts) a where slots.host = 'host-'||a.n")
        x("insert into metric_points select a.job_id, n, -1, e*100, 1, e, now(), e from attempts a, unnest(array['loss','accuracy','val_loss','epoch_s','data_wait_s','allreduce_s']) n, generate_series(1,200) e")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c: c.execute(text("analyze"))
    took=[]
    for _ in range(15):
        t=time.perf_counter(); r=api.get("/metrics"); took.append(time.perf_counter()-t)
    open("/tmp/h/h/metrics.txt","w").write(r.text)
    open("/tmp/h/h/om.txt","w").write(api.get("/metrics", headers={"Accept":"application/openmetrics-text; version=1.0.0"}).text)
    from api.live_metrics import LiveGauges
    from jobs import live_figures, projects
    out=[f"scrape min {min(took[1:])*1000:.1f} median {sorted(took)[7]*1000:.1f} ms", f"{len(r.text.splitlines())} lines {len(r.content)} bytes"]
    with sessions() as s:
        for name, f in dict(jobs=lambda: live_figures.running_jobs(s), gpus=lambda: live_figures.leased_gpus(s,host_timeout_s=1e6), hosts=lambda: live_figures.hosts(s,host_timeout_s=1e6), projects=lambda: projects.states(s), all=lambda: api.app.state.live_gauges.text()).items():
            b=[]
            for _ in range(7):
                t=time.perf_counter(); v=f(); b.append(time.perf_counter()-t)
            out.append(f"{name} {min(b)*1000:.1f} ms {len(v)}")
    t=time.process_time(); 
    for _ in range(10): api.get("/metrics")
    out.append(f"cpu {(time.process_time()-t)*100:.1f} ms each")
    open("/tmp/h/h/scrape.out","w").write("\n".join(out)+"\n")
